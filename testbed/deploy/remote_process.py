"""A program that runs on an island while we go on: its exit, its output, how to end it.

Fabric's own asynchronous `run` keeps all output in memory and joins it anew for every piece that
arrives, which a training of some hours cannot afford; so a started program has a plain SSH channel
here, and its output goes to files as it comes.

The remote shell first says its process id. sshd starts it as the leader of a process group
(setsid(2)), so a signal to the group reaches everything the program started in it.
"""

from __future__ import annotations

import re
import shlex
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from topologies.errors import RunError

LineListener = Callable[[str, str], None]
"""Called as (site, line) for every line of standard output, from a thread of that process."""

NO_EXIT_STATUS = -1
_CHUNK_BYTES = 65536
_DRAIN_S = 1.0


def wrapped(command: str) -> str:
    """Return the command with a shell around it that says its pid and reports how it ended.

    The shell outlives a SIGTERM to the group, so that the exit status is the program's own.
    """
    return f"trap : TERM; echo $$; /bin/bash -c {shlex.quote(command)} </dev/null; exit $?"


OF_THE_SHELL = re.compile(r"\S*bash: line \d+:\s+\d+ \w+ ")


def describe_exit(code: int) -> str:
    """Return how a program ended in words; 128 + n is a shell's way of telling signal n."""
    if code == NO_EXIT_STATUS:
        return "the connection was lost"
    if code > 128:
        with suppress(ValueError):
            return f"killed by {signal.Signals(code - 128).name}"
    return f"exit code {code}"


def last_line(text: str) -> str:
    """Return the last line that says something, or nothing.

    What a shell says of a command that a signal ended, the command line and all, is left out: the
    exit code says it.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if not OF_THE_SHELL.match(line)]
    return said[-1] if said else ""


class RemoteProcess:
    """A started program; make it with `start_process`.

    Attributes:
        site: the island it runs on.
        pid: process id of its shell, and number of its process group, on the island.
        output_file: its standard output, complete up to now.
        error_file: its standard error, complete up to now.
    """

    def __init__(self, site: str, channel: Any, pid: int, log_directory: Path) -> None:
        self.site = site
        self.pid = pid
        self.output_file = log_directory / f"{site}.out"
        self.error_file = log_directory / f"{site}.err"
        self._channel = channel
        self._ended_at: float | None = None
        self._pumps: list[threading.Thread] = []

    def follow(self, first_output: bytes, on_line: LineListener | None) -> None:
        """Start to copy its output into the files."""
        streams = ((self._copy_output, (first_output, on_line)), (self._copy_errors, ()))
        for target, arguments in streams:
            pump = threading.Thread(target=target, args=arguments, daemon=True)
            pump.start()
            self._pumps.append(pump)

    def _copy_output(self, first_output: bytes, on_line: LineListener | None) -> None:
        unfinished = b""
        with self.output_file.open("ab", buffering=0) as file:
            chunk = first_output or self._channel.recv(_CHUNK_BYTES)
            while chunk:
                _keep(file, chunk)
                if on_line is not None:
                    *lines, unfinished = (unfinished + chunk).split(b"\n")
                    for line in lines:
                        on_line(self.site, line.decode(errors="replace"))
                chunk = self._channel.recv(_CHUNK_BYTES)
        self._ended_at = time.monotonic()

    def _copy_errors(self) -> None:
        with self.error_file.open("ab", buffering=0) as file:
            while chunk := self._channel.recv_stderr(_CHUNK_BYTES):
                _keep(file, chunk)

    @property
    def exit_code(self) -> int | None:
        """How it ended, `NO_EXIT_STATUS` when the connection broke, None while it runs."""
        if not self._channel.exit_status_ready():
            return None
        return int(self._channel.recv_exit_status())

    @property
    def ended_at(self) -> float:
        """When its output ended, on the monotonic clock; now, when it has not."""
        return time.monotonic() if self._ended_at is None else self._ended_at

    def error_tail(self, lines: int = 20) -> str:
        """Return the last lines of its standard error."""
        for pump in self._pumps:
            pump.join(_DRAIN_S)
        text = self.error_file.read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])


def start_process(
    site: str,
    channel: Any,
    command: str,
    log_directory: Path,
    timeout_s: float,
    on_line: LineListener | None = None,
) -> RemoteProcess:
    """Start a command on a fresh SSH session and wait until its shell has answered.

    Raises:
        RunError: when the shell does not say its process id in time.
    """
    channel.settimeout(timeout_s)
    channel.exec_command(wrapped(command))
    answer = b""
    while b"\n" not in answer:
        chunk = channel.recv(_CHUNK_BYTES)
        if not chunk:
            raise RunError("the shell on the island ended before it answered")
        answer += chunk
    channel.settimeout(None)
    pid, _, first_output = answer.partition(b"\n")
    process = RemoteProcess(site, channel, int(pid), log_directory)
    process.follow(first_output, on_line)
    return process


def _keep(file: IO[bytes], chunk: bytes) -> None:
    """Write what a process said, if there is room: a full disk must not keep it from being read."""
    with suppress(OSError):
        file.write(chunk)
