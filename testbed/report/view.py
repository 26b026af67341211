"""A run as its report shows it: what the files hold, put together once for all figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.experiment.background import FILE_NAME as TRAFFIC
from testbed.report.frames import Frames, frames_of
from testbed.report.material import Material, read_material
from testbed.report.phases import Phase, phases_of
from testbed.report.rounds import Round, rounds_of


@dataclass(frozen=True)
class RunView:
    """A record with its rounds, its workers' phases and the frames of its map."""

    material: Material
    rounds: Sequence[Round]
    phases: Sequence[Phase]
    frames: Frames

    @property
    def start_s(self) -> float:
        """UNIX seconds from which the figures count."""
        starts = [one.start for one in self.rounds] + [phase.start_s for phase in self.phases]
        times = [series.times[0] for series in self.material.links.values() if series.times]
        samples = [float(row["time"]) for row in self.material.fidelity[:1] if "time" in row]
        return min(starts or times or samples, default=0.0)


def view_run(path: Path) -> RunView:
    """Read a record; raises UserError where there is none, RunError for a damaged file."""
    material = read_material(path)
    rows = material.run.rounds or material.summary.get("rounds") or ()
    rounds = rounds_of(rows, material.manifest, material.sites)
    return RunView(
        material=material,
        rounds=rounds,
        phases=phases_of(material.run.workers, rounds),
        frames=frames_of(material, rounds, whole_rounds=has_traffic_all_the_time(material)),
    )


def has_traffic_all_the_time(material: Material) -> bool:
    """Return whether links carried more than exchanges do while islands exchange.

    Other traffic goes on while islands compute, and so do fragments that overlap with computing.
    """
    if (material.run.path / TRAFFIC).is_file():
        return True
    return any(row.get("fragments") for rows in material.run.workers.values() for row in rows)
