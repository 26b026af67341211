"""Ports of the loopback interface for tests that start programs which listen."""

import random
import socket

# Below what Linux gives to outgoing connections (32768 on), which may take any of theirs in the
# moment between a look and the start of a program.
FIRST, LAST = 20000, 32000


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port that nobody has now, and that only another test's draw could take."""
    while True:
        port = random.randint(FIRST, LAST)
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
