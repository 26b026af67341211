"""The record of a run while it is made.

One process owns the record. It holds a lock on `events.jsonl` for as long as it lives (flock(2)),
which the kernel takes away when the process ends in whatever way, so a reader can tell a running
run from a killed one, in whichever process namespace either of them is.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from testbed.record.files import json_line, point_symlink, write_json
from topologies.errors import AtollError, RunError

MANIFEST = "manifest.json"
SUMMARY = "summary.json"
CALIBRATION = "calibration.json"
TOPOLOGY = "topology.yaml"
EVENTS = "events.jsonl"
ROUNDS = "rounds.jsonl"
LINKS = "links.csv"
WORKERS = "workers"
CAPTURE = "capture"
LATEST = "latest"

RUN_STARTED = "run_started"
RUN_ENDED = "run_ended"
COMPLETE = "complete"
FAILED = "failed"


class RunRecord:
    """One run's folder, open for writing; make it with `RunRecord.create`, end it with `end`.

    As a context manager it ends as complete, or as failed with the reason when left by an
    exception. All methods may be called from several threads.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self._manifest = dict(manifest)
        self._lock = threading.Lock()
        self._written_rounds: set[int] = set()
        self._ended = False
        self._events = (path / EVENTS).open("a", encoding="utf-8")
        fcntl.flock(self._events, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any], is_latest: bool = True) -> RunRecord:
        """Make the folder with its manifest and let `latest` beside it point there.

        Args:
            path: `runs/<id>`; its parents are made, it itself must not be there.
            manifest: see `testbed.record.manifest`.
            is_latest: False for the record of a part of a run, which no `latest` points to.

        Raises:
            RunError: the folder is there already, or cannot be made.
        """
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise RunError(f"{path} is there already: every run has a record of its own") from None
        except OSError as error:
            raise RunError(f"{path}: {error.strerror}") from None
        (path / WORKERS).mkdir()
        record = cls(path, manifest)
        write_json(path / MANIFEST, record._manifest)
        record.event(RUN_STARTED)
        if is_latest:
            point_symlink(path.parent / LATEST, path.name)
        return record

    @property
    def run_id(self) -> str:
        """The name of the run, which is that of its folder."""
        return self.path.name

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What the run was asked to do and what it runs on, as far as it is known."""
        with self._lock:
            return dict(self._manifest)

    @property
    def links_csv(self) -> Path:
        """Where the link counters are sampled to."""
        return self.path / LINKS

    @property
    def capture_directory(self) -> Path:
        """Where captures go; not made unless something is captured."""
        return self.path / CAPTURE

    def worker_log(self, site: str) -> Path:
        """Return where the rows of a site's worker go."""
        return self.path / WORKERS / f"{site}.jsonl"

    def amend_manifest(self, **fields: Any) -> None:
        """Add to the manifest what was not known when the run began."""
        with self._lock:
            self._manifest.update(fields)
            write_json(self.path / MANIFEST, self._manifest)

    def event(self, kind: str, **fields: Any) -> None:
        """Append an event (a fault, a reroute, an error) with its UNIX time."""
        with self._lock, _writing(self.path / EVENTS):
            self._events.write(json_line({"time": time.time(), "event": kind, **fields}))
            self._events.flush()

    def rounds(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rounds that are finished; those that are there already are passed over.

        Args:
            rows: each with its number in `round`; see `testbed.record.summary.round_rows`.
        """
        with self._lock:
            new = [row for row in rows if row["round"] not in self._written_rounds]
            self._written_rounds.update(row["round"] for row in new)
            self._append(self.path / ROUNDS, new)

    def worker_rows(self, site: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows that a site's worker has reported."""
        with self._lock:
            self._append(self.worker_log(site), rows)

    @staticmethod
    def _append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json_line(row) for row in rows)
        if text:
            with _writing(path), path.open("a", encoding="utf-8") as file:
                file.write(text)

    def replace_worker_log(self, site: str, text: str) -> None:
        """Write a site's worker log as the island has it, instead of what was reported so far."""
        path = self.worker_log(site)
        beside = path.with_name(f".{path.name}")
        with _writing(path):
            beside.write_text(text, encoding="utf-8")
            beside.replace(path)

    def write_topology(self, text: str) -> None:
        """Write the network as it really is, rates not scaled, so that the record stands alone."""
        (self.path / TOPOLOGY).write_text(text, encoding="utf-8")

    def write_calibration(self, calibration: Mapping[str, Any]) -> None:
        """Write what each link was asked for and does."""
        write_json(self.path / CALIBRATION, calibration)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write what came of the run; see `testbed.record.summary`."""
        with _writing(self.path / SUMMARY):
            write_json(self.path / SUMMARY, summary)

    def end(self, outcome: str = COMPLETE, reason: str = "") -> None:
        """Say how the run ended and let go of the record; a second call does nothing."""
        if self._ended:
            return
        self._ended = True
        try:
            self.event(RUN_ENDED, outcome=outcome, reason=reason)
        finally:
            with suppress(OSError):  # what could not be written a moment ago is tried once more
                self._events.close()

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.end()
        else:
            with suppress(RunError):  # a full disk is why it failed, and is told already
                self.end(FAILED, _reason(error))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Let a file of the record be written; raises RunError that names it, as for a full disk."""
    try:
        yield
    except OSError as error:
        raise RunError(f"the record cannot be written: {path}: {error.strerror}") from error


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether a request to end is at the root of an error, such as one met while ending."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _reason(error: BaseException) -> str:
    if was_interrupted(error):
        return "interrupted"
    text = str(error)
    return text if isinstance(error, AtollError) and text else f"{type(error).__name__}: {text}"


def is_locked(path: Path) -> bool:
    """Return whether a living process owns the record at `path`."""
    try:
        descriptor = os.open(path / EVENTS, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
