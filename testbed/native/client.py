"""One control connection to a running daemon."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from topologies.errors import RunError

ANSWER_LIMIT_S = 10.0


class RequestRefusedError(RunError):
    """The daemon understood and said no; the text is its reason."""


class Client:
    """Sends one line at a time and returns the answer's lines; threads take turns.

    Args:
        connection: to its control socket.
        name: of the daemon, where it does not answer.
    """

    def __init__(self, connection: socket.socket, name: str) -> None:
        self._name = name
        self._connection = connection
        self._connection.settimeout(ANSWER_LIMIT_S)
        self._answers = connection.makefile("r", encoding="ascii", errors="replace")
        self._lock = threading.Lock()

    @classmethod
    def connect(cls, path: Path, name: str) -> Client:
        """Connect to the socket at `path`, however long it is; raises RunError if none listens."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short_name(path) as name:
                connection.connect(name)
        except OSError as error:
            connection.close()
            raise RunError(f"{name} does not listen at {path}: {error.strerror}") from error
        return cls(connection, name)

    def ask(self, request: str) -> list[str]:
        """Return the answer's lines before its `ok`.

        Raises:
            RequestRefusedError: it said no.
            RunError: it is not there any more, or does not answer in time.
        """
        try:
            with self._lock:
                self._connection.sendall(request.encode("ascii") + b"\n")
                return self._answer()
        except (OSError, UnicodeError) as error:
            raise RunError(f"{self._name} does not answer: {error}") from error

    def _answer(self) -> list[str]:
        lines: list[str] = []
        for line in self._answers:
            verdict, _, text = line.strip().partition(" ")
            if verdict == "ok":
                return lines
            if verdict == "error":
                raise RequestRefusedError(text)
            lines.append(line.strip())
        raise RunError(f"{self._name} has ended")

    def close(self) -> None:
        """Close the connection; the daemon goes on."""
        self._answers.close()
        self._connection.close()


class _short_name:  # noqa: N801 (used as a `with` clause)
    """A name for a socket's path that fits the 108 bytes of `sockaddr_un`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> str:
        self._folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._folder}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)


def listen(path: Path) -> socket.socket:
    """Return a socket that listens at `path`, to be handed to the daemon."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short_name(path) as name:
        listener.bind(name)
    listener.listen()
    return listener
