"""Real workers for the tests: processes of their own, on the loopback interface."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
NURSERY = Path(__file__).with_name("nursery.py")
SET_BY_LAUNCHERS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GLOO_SOCKET_IFNAME")
LIMIT_S = 150.0


@dataclass(frozen=True)
class Outcome:
    """How a worker ended; its exit code is negative for a signal, and None if it did not end."""

    exit_code: int | None
    stdout: str
    stderr: str


class Nursery:
    """Starts Python programs in processes that have PyTorch loaded already."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = dict(environment)
        self._folder = folder
        self._running: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, str(NURSERY)],
            env={**environment, "TORCH_CPP_LOG_LEVEL": "FATAL"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
        """Start Python with some arguments; return the process id."""
        number = len(list(self._folder.iterdir()))
        outputs = {name: str(self._folder / f"{number}.{name}") for name in ("stdout", "stderr")}
        variables = {**self._environment, **environment}
        request = {"start": list(arguments), "environment": variables, **outputs}
        process_id: int = self._ask(request)
        self._running.add(process_id)
        for name, path in outputs.items():
            (self._folder / f"{process_id}.{name}").symlink_to(path)
        return process_id

    def finish(self, process_id: int) -> Outcome:
        """Wait for a process to end, and end it when it does not."""
        exit_code = self._ask({"wait": process_id, "limit_s": LIMIT_S})
        if exit_code is None:
            os.kill(process_id, signal.SIGKILL)
            self._ask({"wait": process_id, "limit_s": LIMIT_S})
        self._running.discard(process_id)
        texts = [(self._folder / f"{process_id}.{name}") for name in ("stdout", "stderr")]
        return Outcome(exit_code, *(path.read_text() for path in texts))

    def close(self) -> None:
        """End what still runs, by its process id."""
        for process_id in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        self._process.communicate()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(name="free_port")
def a_free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on."""
    return free_port()


@pytest.fixture(scope="session")
def bare_environment() -> dict[str, str]:
    """The environment of a worker that no launcher has told anything."""
    kept = {name: value for name, value in os.environ.items() if name not in SET_BY_LAUNCHERS}
    return {**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def nursery(
    bare_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nursery]:
    """Where workers come from; closed at the end, with all that is left in it."""
    one = Nursery(bare_environment, tmp_path_factory.mktemp("nursery"))
    yield one
    one.close()


@pytest.fixture
def start_ranks(nursery: Nursery, free_port: int) -> Callable[..., list[int]]:
    """Start Python once for each rank of a job, with the variables that torchrun would set."""

    def run(arguments: Sequence[str], world_size: int, sites: str = "") -> list[int]:
        job = {
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port),
            "ATOLL_SITES": sites,
        }
        ranks = range(world_size)
        return [nursery.start(arguments, {**job, "RANK": str(rank)}) for rank in ranks]

    return run
