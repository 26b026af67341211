"""What belongs to a run: one folder under /run/atoll, with everything needed to find or end it.

The supervisor writes `owner.json` (its own pid and that of the run's first process, each with its
start time, since pids are used again), the run writes `nodes.json` (its nodes and their network
namespaces). `/run` is emptied by a reboot, as the run itself is.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed.isolation import start_time_ticks
from topologies.errors import UserError

RUNTIME_ROOT = Path("/run/atoll")
LEDGER_NAME = "host-settings.json"
ENDED_NAME = "ended"
BIRTH_LIMIT_S = 10.0


@dataclass(frozen=True)
class ProcessId:
    """One process for ever: a pid and when it started, in clock ticks since boot."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """The identity of a living process, or None."""
        ticks = start_time_ticks(pid)
        return None if ticks is None else cls(pid, ticks)

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return start_time_ticks(self.pid) == self.start_ticks


@dataclass(frozen=True)
class Node:
    """A node of a run and the network namespace that it is.

    Attributes:
        kind: `island`, `switch` or `accelerator`.
        pid: its shell, as numbered inside the run's PID namespace.
        netns_inode: number of its network namespace, the same from every side.
    """

    name: str
    kind: str
    site: str
    pid: int
    netns_inode: int
    management_ip: str


@dataclass(frozen=True)
class Owner:
    """The processes that a run stands and falls with, and where its record is.

    `first_process` is None until the run's namespaces exist.
    """

    run_id: str
    topology: str
    record_directory: str
    supervisor: ProcessId
    first_process: ProcessId | None

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """The supervisor and, once there is one, the run's first process."""
        both = (self.supervisor, self.first_process)
        return tuple(process for process in both if process is not None)


class RuntimeDirectory:
    """`/run/atoll/<run id>`: the private files of one run."""

    def __init__(self, run_id: str, root: Path = RUNTIME_ROOT) -> None:
        self.run_id = run_id
        self.path = root / run_id

    def create(self) -> None:
        """Make the folder, readable by root only; a second run of that name is an error."""
        self.path.mkdir(mode=0o700, parents=True)

    def write_owner(self, owner: Owner) -> None:
        """Record who owns the run."""
        _write_json(self.path / "owner.json", asdict(owner))

    def owner(self) -> Owner | None:
        """Return who owns the run, or None for one that never came so far."""
        data = _read_json(self.path / "owner.json")
        try:
            data["supervisor"] = ProcessId(**data["supervisor"])
            first = data["first_process"]
            data["first_process"] = ProcessId(**first) if first else None
            return Owner(**data)
        except (TypeError, KeyError):
            return None  # nobody's, or not a file of ours: nothing that lives

    def write_ended(self) -> None:
        """Record that the run's first process came to its own end."""
        (self.path / ENDED_NAME).touch()

    @property
    def has_ended(self) -> bool:
        """Whether the run's first process came to its own end."""
        return (self.path / ENDED_NAME).exists()

    def write_nodes(self, nodes: Iterable[Node]) -> None:
        """Record the nodes of the run."""
        _write_json(self.path / "nodes.json", [asdict(node) for node in nodes])

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes recorded so far."""
        return tuple(Node(**node) for node in _read_json(self.path / "nodes.json") or ())

    @property
    def alive(self) -> bool:
        """Whether the supervisor or the run's first process still lives.

        A folder without an owner is a run that is just being born, unless it is older than that.
        """
        owner = self.owner()
        if owner is None:
            return self.path.exists() and time.time() - self.path.stat().st_mtime < BIRTH_LIMIT_S
        return any(process.alive for process in owner.processes)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def runtime_directories(root: Path = RUNTIME_ROOT) -> tuple[RuntimeDirectory, ...]:
    """Return every run that has left a folder, living or dead, oldest first."""
    if not root.exists():
        return ()
    folders = sorted(path for path in root.iterdir() if path.is_dir())
    return tuple(RuntimeDirectory(path.name, root) for path in folders)


def the_running(run_id: str | None = None, root: Path = RUNTIME_ROOT) -> RuntimeDirectory:
    """Return the living run of that name, or the only living one when no name is given.

    Raises:
        UserError: when there is none, or several and no name was given.
    """
    living = [directory for directory in runtime_directories(root) if directory.alive]
    if run_id is not None:
        living = [directory for directory in living if directory.run_id == run_id]
    if len(living) == 1:
        return living[0]
    names = ", ".join(directory.run_id for directory in living)
    if living:
        raise UserError(f"several emulations are running, choose one with --run: {names}")
    wanted = f"no emulation {run_id!r} is running" if run_id else "no emulation is running"
    raise UserError(f"{wanted}; start one with `atoll up TOPOLOGY` or `atoll emulate TOPOLOGY`")


def _write_json(path: Path, data: object) -> None:
    """Replace the file as a whole, so that a reader never sees half of it."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(data, indent=1))
    partial.replace(path)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except PermissionError:
        raise UserError(f"{path} belongs to root, as every run does: call atoll as root") from None
