"""The command line: parse, call, print. One file a command or group, imported when it is used."""
