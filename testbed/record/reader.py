"""Reading the record of a run: one that is complete, one that still runs, one that was killed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.measure.series import Series, load_links_csv
from testbed.record.damage import readable
from testbed.record.files import Row, read_json, read_json_lines
from testbed.record.writer import (
    CALIBRATION,
    COMPLETE,
    EVENTS,
    FAILED,
    LATEST,
    LINKS,
    MANIFEST,
    ROUNDS,
    RUN_ENDED,
    SUMMARY,
    WORKERS,
    is_locked,
)
from topologies.errors import RunError, UserError
from topologies.model import Direction

RUNNING = "running"
KILLED = "killed"
DAMAGED = "damaged"


@dataclass(frozen=True)
class Run:
    """Everything a run has recorded so far.

    Attributes:
        state: `running`, `complete`, `failed` (it ended itself, and says why) or `killed`.
        reason: why it failed, empty otherwise.
        workers: for each site the rows of its worker.
        links: for each direction its counters over time.
        summary: None for a run that did not come so far; so is `calibration`.
    """

    path: Path
    state: str
    reason: str
    manifest: Mapping[str, Any]
    rounds: Sequence[Row]
    workers: Mapping[str, Sequence[Row]]
    events: Sequence[Row]
    links: Mapping[Direction, Series]
    summary: Mapping[str, Any] | None
    calibration: Mapping[str, Any] | None

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.path.name


@dataclass(frozen=True)
class RunEntry:
    """A run in a list of runs; its state may also be `damaged`, and then nothing else is known."""

    run_id: str
    state: str
    topology: str
    started: str
    valid: bool | None


def is_run(path: Path) -> bool:
    """Return whether a folder is the record of a run."""
    return (path / MANIFEST).is_file()


def load_run(path: Path) -> Run:
    """Read the record of a run.

    Raises:
        UserError: there is no record there.
        RunError: a file of it is damaged; the text names file and line.
    """
    if not is_run(path):
        raise UserError(f"{path} is not the record of a run: it has no {MANIFEST}")
    path = path.resolve()
    events = read_json_lines(path / EVENTS)
    state, reason = _state(path, events)
    return Run(
        path=path,
        state=state,
        reason=reason,
        manifest=read_json(path / MANIFEST) or {},
        rounds=read_json_lines(path / ROUNDS),
        workers=_workers(path / WORKERS),
        events=events,
        links=load_links_csv(path / LINKS),
        summary=read_json(path / SUMMARY),
        calibration=read_json(path / CALIBRATION),
    )


def _workers(folder: Path) -> dict[str, list[Row]]:
    return {path.stem: read_json_lines(path) for path in sorted(folder.glob("[!.]*.jsonl"))}


def _state(path: Path, events: Sequence[Row]) -> tuple[str, str]:
    ends = [row for row in events if row.get("event") == RUN_ENDED]
    if ends:
        return str(ends[-1].get("outcome", COMPLETE)), str(ends[-1].get("reason", ""))
    return (RUNNING if is_locked(path) else KILLED), ""


def list_runs(runs: Path) -> list[RunEntry]:
    """Return the runs recorded in a folder, oldest first; none when it is not there."""
    if not runs.is_dir():
        return []
    folders = (path for path in runs.iterdir() if not path.is_symlink() and is_run(path))
    return sorted((_entry(path) for path in folders), key=lambda run: (run.started, run.run_id))


def _entry(path: Path) -> RunEntry:
    try:
        with readable(path):
            return _read_entry(path)
    except RunError:  # one damaged record must not hide the others
        return RunEntry(path.name, DAMAGED, "", "", None)


def _read_entry(path: Path) -> RunEntry:
    manifest = read_json(path / MANIFEST) or {}
    summary = read_json(path / SUMMARY) or {}
    state, _ = _state(path, read_json_lines(path / EVENTS))
    return RunEntry(
        run_id=path.name,
        state=state,
        topology=str(manifest.get("topology", "")),
        started=str(manifest.get("started", "")),
        valid=False if state == FAILED else summary.get("valid"),
    )


def find_run(name: str | None, runs: Path) -> Path:
    """Return the record of a run by its name, by the path of its folder, or the latest for None.

    Raises:
        UserError: there is no such run; the text names what there is.
    """
    wanted = name or LATEST
    for path in (runs / wanted, Path(wanted)):
        if is_run(path):
            return path.resolve()
    known = [run.run_id for run in list_runs(runs)]
    shown = ", ".join(known[-5:]) or "none yet"
    raise UserError(f"no run {wanted!r} in {runs}; the latest are: {shown}")
