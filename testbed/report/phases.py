"""What every worker did when: computed, waited for its clique, exchanged.

A worker says when it began and ended its local steps and when it began and ended to synchronize.
Whether it then waited or exchanged, only all rows of its clique together tell: before the last
member was ready nothing could be finished, so until then it waited.

    worker 1  [ compute ][ wait  ][ exchange ]
    worker 2  [    compute       ][ exchange ]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.measure.windows import WorkerRows, round_rows
from testbed.report.rounds import Round

COMPUTE, WAIT, EXCHANGE = "compute", "wait", "exchange"
PHASE_KINDS = (COMPUTE, WAIT, EXCHANGE)


@dataclass(frozen=True)
class Phase:
    """A stretch of one worker's time, in UNIX seconds."""

    site: str
    round: int
    kind: str
    start_s: float
    end_s: float
    figures: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end_s - self.start_s


def phases_of(workers: WorkerRows, rounds: Sequence[Round]) -> list[Phase]:
    """Return the phases of every worker, by site and time.

    Rounds that not every island finished count too: of a killed run they are the last that is
    known. Cliques are those of `rounds`, and everybody where a round is not there.
    """
    by_site = {site: round_rows(rows) for site, rows in workers.items()}
    members = {one.number: _fellows(one) for one in rounds}
    found = [
        phase
        for site, rows in by_site.items()
        for number, row in rows.items()
        for phase in _of_row(site, row, _ready_s(site, number, by_site, members))
    ]
    return sorted(found, key=lambda phase: (phase.site, phase.start_s, phase.end_s))


def _fellows(one: Round) -> dict[str, tuple[str, ...]]:
    return {site: clique.sites for clique in one.cliques for site in clique.sites}


def _ready_s(
    site: str,
    number: int,
    by_site: Mapping[str, Mapping[int, Mapping[str, Any]]],
    members: Mapping[int, Mapping[str, tuple[str, ...]]],
) -> float:
    """Return when the last member of a site's clique was ready to synchronize."""
    fellows = members[number].get(site, (site,)) if number in members else tuple(by_site)
    rows = [by_site[other][number] for other in fellows if number in by_site.get(other, {})]
    return max((float(row["sync_start"]) for row in rows if "sync_start" in row), default=0.0)


def _of_row(site: str, row: Mapping[str, Any], ready_s: float) -> Iterator[Phase]:
    if not {"local_start", "local_end", "sync_start", "sync_end"} <= set(row):
        return
    number = int(row["round"])
    kept = ("train_loss", "held_out_loss", "kind", "clique", "exposed_s")
    figures = {name: row[name] for name in kept if row.get(name) is not None}
    yield Phase(site, number, COMPUTE, row["local_start"], row["local_end"], figures)
    begin, end = float(row["sync_start"]), float(row["sync_end"])
    ready = min(max(ready_s, begin), end)
    if row.get("clique") == []:
        return
    if ready > begin:
        yield Phase(site, number, WAIT, begin, ready, figures)
    yield from _exchanges(site, number, row, ready, end)


def _exchanges(
    site: str, number: int, row: Mapping[str, Any], ready: float, end: float
) -> Iterator[Phase]:
    """Yield the exchange, or each fragment of one that overlaps the computing."""
    fragments = row.get("fragments") or ()
    for fragment in fragments:
        yield Phase(site, number, EXCHANGE, float(fragment["start"]), float(fragment["end"]))
    if not fragments:
        yield Phase(site, number, EXCHANGE, ready, end)


def shares(phases: Sequence[Phase]) -> dict[str, dict[str, float]]:
    """Return, for every site, the seconds of each kind of phase."""
    total: dict[str, dict[str, float]] = {}
    for phase in phases:
        of_site = total.setdefault(phase.site, dict.fromkeys(PHASE_KINDS, 0.0))
        of_site[phase.kind] += phase.seconds
    return total
