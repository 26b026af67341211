"""What a record says by now: looked at again and again, each time reading what was added."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.monitor.readings import FidelitySample
from testbed.monitor.watch import FILE_NAME as FIDELITY
from testbed.record.files import read_json
from testbed.record.reader import KILLED, RUNNING
from testbed.record.writer import (
    COMPLETE,
    EVENTS,
    LINKS,
    MANIFEST,
    ROUNDS,
    RUN_ENDED,
    SUMMARY,
    WORKERS,
    is_locked,
)
from testbed.watching.rates import Meters
from testbed.watching.tail import Tail
from topologies.errors import AtollError
from topologies.files import load
from topologies.model import Topology

Row = dict[str, Any]
KEPT_ROUNDS = 50
KEPT_SAMPLES = 3600
TOPOLOGY = "topology.yaml"


def newest_record(manifests: Sequence[Path]) -> Path | None:
    """Return the record that is written now: that of the newest training; None without any."""
    if not manifests:
        return None
    return max(manifests, key=lambda path: path.stat().st_mtime_ns).parent


def rows_of(lines: list[str]) -> list[Row]:
    """Return lines of JSON as rows; what is none is passed over."""
    rows = []
    for line in lines:
        with suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict):
                rows.append(row)
    return rows


@dataclass
class Part:
    """One file of rows, the newest kept.

    Attributes:
        tail: of the file.
        keep: how many rows.
        count: of all rows so far.
    """

    tail: Tail
    keep: int
    rows: list[Row] = field(default_factory=list)
    count: int = 0

    def look(self) -> list[Row]:
        """Read what was added, and return it."""
        added = rows_of(self.tail.lines())
        if self.tail.restarted:
            self.rows, self.count = [], 0
        self.count += len(added)
        self.rows = [*self.rows, *added][-self.keep :]
        return added


@dataclass
class Live:
    """A run as its record has it; `look` brings it up to date.

    Attributes:
        run: folder of the run.
        record: the record that is looked at: the run's own, or that of a variant.
        manifest: of the record.
        outer_manifest: of the run.
        summary: of the record, once there is one.
        topology: with rates scaled; None if it cannot be read any more.
        meters: of all link directions.
        workers: rows of each site's worker.
        measured_from_s: UNIX time at which the first round began; None before it is settled.
        late_releases: frames that links let go late, in all samples, those not kept included.
    """

    run: Path
    record: Path = Path()
    manifest: Row = field(default_factory=dict)
    outer_manifest: Row = field(default_factory=dict)
    summary: Row | None = None
    topology: Topology | None = None
    meters: Meters = field(default_factory=Meters)
    workers: dict[str, Part] = field(default_factory=dict)
    late_releases: int = 0
    measured_from_s: float | None = None
    _parts: dict[str, Part] = field(default_factory=dict)
    _links: Tail | None = None
    _trainings: int = 0

    def look(self) -> None:
        """Read what was added since the last look."""
        manifests = list(self.run.glob(f"variants/*/*/{MANIFEST}"))
        self._trainings = len(manifests)
        now = newest_record(manifests) or self.run
        if now != self.record:
            self._open(now)
        self.manifest = _json(self.record / MANIFEST)
        self.outer_manifest = _json(self.run / MANIFEST)
        self.topology = self.topology or self._topology()
        if self._links is not None:
            self.meters.take(self._links.lines())
        self._find_workers()
        for part in self.workers.values():
            part.look()
        for name, part in self._parts.items():
            added = part.look()
            if name == FIDELITY:
                self.late_releases += sum(int(row.get("late_releases") or 0) for row in added)
        if self.measured_from_s is None and self.rounds.rows:
            self.measured_from_s = self.rounds.rows[0].get("start")
        self.summary = _json(self.record / SUMMARY) or None

    def _open(self, record: Path) -> None:
        self.record, self.workers, self.meters = record, {}, Meters()
        self.late_releases, self.measured_from_s = 0, None
        self._links = Tail(record / LINKS)
        self._parts = {
            ROUNDS: Part(Tail(record / ROUNDS), KEPT_ROUNDS),
            FIDELITY: Part(Tail(self._fidelity_file()), KEPT_SAMPLES),
            EVENTS: Part(Tail(self.run / EVENTS), KEPT_ROUNDS),
        }

    def _fidelity_file(self) -> Path:
        own = self.record / FIDELITY
        return own if own.is_file() or self.record == self.run else self.run / FIDELITY

    def _find_workers(self) -> None:
        for path in (self.record / WORKERS).glob("[!.]*.jsonl"):
            self.workers.setdefault(path.stem, Part(Tail(path), KEPT_ROUNDS))

    def _topology(self) -> Topology | None:
        name = str(self.manifest.get("topology", ""))
        files = [folder / TOPOLOGY for folder in (self.record, self.run)]
        for place in [*(str(file) for file in files if file.is_file()), name]:
            with suppress(AtollError, TypeError, ValueError):
                return load(place).scaled(float(self.manifest.get("rate_scale", 1.0)))
        return None

    @property
    def rounds(self) -> Part:
        """Rounds that are settled."""
        return self._parts[ROUNDS]

    @property
    def events(self) -> Part:
        """What happened in the run."""
        return self._parts[EVENTS]

    @property
    def samples(self) -> list[FidelitySample]:
        """How the machine kept up."""
        found = []
        for row in self._parts[FIDELITY].rows:
            with suppress(TypeError):
                found.append(FidelitySample(**row))
        return found

    @property
    def state(self) -> str:
        """`running`, `complete`, `failed` or `killed`."""
        ends = [row for row in self.events.rows if row.get("event") == RUN_ENDED]
        if ends:
            return str(ends[-1].get("outcome", COMPLETE))
        return RUNNING if is_locked(self.run) else KILLED

    @property
    def training(self) -> tuple[int, int] | None:
        """Which training of how many this is, in a run of several."""
        if self.record == self.run:
            return None
        experiment = self.outer_manifest.get("experiment") or {}
        each = len(experiment.get("variants", ()))
        return self._trainings, max(self._trainings, each * int(experiment.get("repetitions", 1)))

    @property
    def asked_rounds(self) -> int | None:
        """How many rounds the training is to have."""
        settings: Mapping[str, Any] = self.manifest.get("settings") or {}
        rounds = settings.get("rounds") or _of_variant(self.manifest)
        return int(rounds) if rounds else None


def _of_variant(manifest: Row) -> Any:
    experiment = manifest.get("experiment") or {}
    for variant in experiment.get("variants", ()):
        if variant.get("name") == manifest.get("variant"):
            return variant.get("rounds")
    return experiment.get("rounds")


def _json(path: Path) -> Row:
    with suppress(AtollError):
        return read_json(path) or {}
    return {}
