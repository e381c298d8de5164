"""The command line, as the tests of commands call it."""

from tests.unit.cli.conftest import cli as cli
