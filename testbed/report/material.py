"""All that a report is made of: the files of one record, read once.

A report tells what the files say and nothing else, so it can be made of any record: complete,
failed, killed, still running, or written before a field existed. What is missing is None or empty
here, and the part of the report that needs it says so.

One of several runs of a comparison lies in `variants/<variant>/<repetition>/`. The network was
built, calibrated and watched once for all of them; those files are in the folder above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from testbed.measure.series import Series
from testbed.record.files import Row, read_json, read_json_lines
from testbed.record.reader import Run, load_run
from testbed.record.writer import CALIBRATION
from testbed.report.formats import number
from topologies.errors import AtollError
from topologies.files import load
from topologies.model import Direction, Topology

FIDELITY = "fidelity.jsonl"
TOPOLOGY = "topology.yaml"
VARIANTS = "variants"
SHARED = "../../../"  # from variants/<variant>/<repetition>/


@dataclass(frozen=True)
class Material:
    """The record of a run as a report needs it.

    Attributes:
        run: what the record's reader makes of the files.
        topology: the network at the rates it was emulated with; None if it is not to be found.
        calibration: of this run or of the comparison it belongs to.
        fidelity: what the monitor wrote while this run trained.
        shared: the folder of what several runs have in common; the run's own if it is alone.
    """

    run: Run
    topology: Topology | None
    calibration: Mapping[str, Any]
    fidelity: Sequence[Row]
    shared: Path

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What was asked for."""
        return self.run.manifest

    @property
    def summary(self) -> Mapping[str, Any]:
        """What came of it; empty for a run that did not end."""
        return self.run.summary or {}

    @property
    def links(self) -> Mapping[Direction, Series]:
        """The counters of every direction over time."""
        return self.run.links

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """The codes of all sites that the record knows of, sorted."""
        if self.topology is not None:
            return self.topology.codes
        of_links = {Direction.up(end).target for d in self.links for end in _switches(d)}
        return tuple(sorted(of_links | set(self.run.workers)))

    @cached_property
    def rates_mbps(self) -> dict[str, float]:
        """The rate of each direction: as calibration asked for, else of the topology."""
        if self.topology is not None:
            specs = self.topology.directions()
            return {str(direction): spec.rate_mbps for direction, spec in specs.items()}
        rows = self.calibration.get("directions", ())
        asked = {str(row["direction"]): number(row.get("asked_rate_mbps")) for row in rows}
        return {direction: rate for direction, rate in asked.items() if rate}

    def source(self, name: str) -> str:
        """Return the path of one of the record's files, relative to the report."""
        if (self.run.path / name).exists() or self.shared == self.run.path:
            return name
        return f"{SHARED}{name}"


def _switches(direction: Direction) -> list[str]:
    return [end for end in (direction.source, direction.target) if "." not in end]


def read_material(path: Path) -> Material:
    """Read a record; raises UserError where there is none, RunError for a damaged file."""
    run = load_run(path)
    shared = shared_folder(run.path)
    return Material(
        run=run,
        topology=_topology(run, shared),
        calibration=run.calibration or read_json(shared / CALIBRATION) or {},
        fidelity=_while_training(read_json_lines(_nearest(run.path, shared, FIDELITY)), run),
        shared=shared,
    )


def shared_folder(run: Path) -> Path:
    """Return the folder of the comparison that a run belongs to, or its own."""
    return run.parents[2] if run.parent.parent.name == VARIANTS else run


def _nearest(run: Path, shared: Path, name: str) -> Path:
    return run / name if (run / name).exists() else shared / name


def _topology(run: Run, shared: Path) -> Topology | None:
    """Return the emulated network: of the record itself if it has it, else by its name."""
    experiment = run.manifest.get("experiment") or {}
    names = [run.manifest.get("topology"), experiment.get("topology")]
    files = [str(path) for path in (run.path / TOPOLOGY, shared / TOPOLOGY) if path.is_file()]
    scale = number(run.manifest.get("rate_scale")) or 1.0
    for name in [*files, *names]:
        try:
            return load(str(name)).scaled(scale)
        except AtollError:
            continue
    return None


def _while_training(rows: Sequence[Row], run: Run) -> list[Row]:
    """Return the rows of one run of several, which one monitor watched."""
    ends = [row["time"] for row in run.events if "time" in row]
    if shared_folder(run.path) == run.path or len(ends) < 2:
        return list(rows)
    return [row for row in rows if ends[0] <= row.get("time", 0.0) <= ends[-1]]
