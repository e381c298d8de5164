"""Be `agent-eval` for a shell: have the fork server run the command, with the streams of this process.

python -S -E fork_client.py SOCKET [ARGUMENT ...]

SOCKET is the descriptor of the server's requests (see fork_server.py). Nothing is imported that takes time.
"""

import json
import os
import socket
import sys


def main(descriptor: int, arguments: list[str]) -> int:
    """Run a command; returns its exit code."""
    mine, far = socket.socketpair()
    with socket.socket(fileno=descriptor) as requests, far:
        socket.send_fds(requests, [b"."], [far.fileno(), 0, 1, 2])
    request = {
        "words": [sys.executable, "-m", "agent_eval", *arguments],
        "cwd": os.getcwd(),
        "environ": dict(os.environ),
    }
    mine.sendall(json.dumps(request).encode())
    mine.shutdown(socket.SHUT_WR)
    with mine.makefile("r") as answers:
        _, code = answers.read().split()
    # A shell reports a signal as 128 and its number.
    return int(code) if int(code) >= 0 else 128 - int(code)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
