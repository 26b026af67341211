"""A running `atoll`, as a user has one in a terminal, and what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.deploy.process_table import ProcessFacts, read_facts
from testbed.ownership import RuntimeDirectory, runtime_directories

ATOLL = str(Path(sys.executable).with_name("atoll"))
END_LIMIT_S = 60.0


class AtollProcess:
    """An `atoll` command with its output so far; its run is the newest of its records."""

    def __init__(self, process: subprocess.Popen[str], runs: Path) -> None:
        self.process = process
        self.runs = runs
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, f"ended before {what}: {self.said}"
            assert time.monotonic() < deadline, f"not {what} in {timeout_s:g} s: {self.said}"
            time.sleep(0.05)

    def ends(self, timeout_s: float = END_LIMIT_S) -> int:
        """Wait for the end; return the exit code, with `lines` complete."""
        code = self.process.wait(timeout_s)
        self._reader.join(timeout_s)
        return code

    @property
    def record(self) -> Path:
        return (self.runs / "latest").resolve()

    @property
    def runtime(self) -> RuntimeDirectory:
        return RuntimeDirectory(self.record.name)

    def namespaces(self) -> set[int]:
        """The network namespaces of the run: its root, islands and switches."""
        owner = self.runtime.owner()
        assert owner is not None
        assert owner.first_process is not None
        root = Path(f"/proc/{owner.first_process.pid}/ns/net").stat().st_ino
        return {root, *(node.netns_inode for node in self.runtime.nodes())}

    def namespace_of(self, kind: str, site: str) -> int:
        """The network namespace of an `island` or a `switch`."""
        nodes = self.runtime.nodes()
        return next(x.netns_inode for x in nodes if (x.kind, x.site) == (kind, site))


@contextmanager
def atoll(runs: Path, *words: str) -> Iterator[AtollProcess]:
    """Start the command, errors and output in one; it is ended with the block."""
    command = [ATOLL, *words, "--runs", str(runs)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield AtollProcess(process, runs)
    finally:
        process.terminate()
        process.wait(END_LIMIT_S)


def living_in(namespaces: set[int]) -> list[ProcessFacts]:
    """The processes in these network namespaces."""
    return [facts for facts in read_facts() if facts.netns_inode in namespaces]


def running_ids() -> list[str]:
    return [directory.run_id for directory in runtime_directories()]
