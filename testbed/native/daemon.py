"""A daemon of ours as a process: started with its control socket, greeted, asked and ended."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed.exit_status import how_it_ended
from testbed.native.client import Client, listen
from topologies.errors import MachineError, RunError

END_LIMIT_S = 5.0


class Daemon:
    """A running daemon; it ends with the process that started it, however that ends.

    Args:
        name: what it is called where it fails.
        command: starts it; the option `--listen-fd` is added.
        socket: path of its control socket.
        log: what it complains of.

    Raises:
        MachineError: it cannot be started.
    """

    def __init__(self, name: str, command: Sequence[str], socket: Path, log: Path) -> None:
        self._name, self._socket, self._log = name, socket, log
        socket.unlink(missing_ok=True)
        with listen(socket) as listener, log.open("ab") as complaints:
            self._process = subprocess.Popen(
                [*command, "--listen-fd", str(listener.fileno())],
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=complaints,
                stderr=complaints,
            )
        self._client = self._greeted()

    def _greeted(self) -> Client:
        client = None
        try:
            client = Client.connect(self._socket, self._name)
            client.ask("own")
            return client
        except RunError as error:
            if client:
                client.close()
            self._process.kill()
            ended = how_it_ended(self._process.wait(), self._log)
            raise MachineError(f"{self._name} does not start: it {ended}") from error

    @property
    def process_id(self) -> int:
        """Its process id, for whoever watches its CPU."""
        return self._process.pid

    def ask(self, request: str) -> list[str]:
        """Return the lines of an answer; see `Client.ask`."""
        return self._client.ask(request)

    def ended(self) -> str | None:
        """Return how it ended, in words, or None while it runs."""
        code = self._process.poll()
        return None if code is None else how_it_ended(code, self._log)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._process.kill()
        self._process.wait()
        self._client.close()

    def close(self) -> int:
        """End it and remove its socket; a second call does nothing. Returns its exit code."""
        self._client.close()
        self._process.terminate()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._socket.unlink(missing_ok=True)
        return self._process.wait()
