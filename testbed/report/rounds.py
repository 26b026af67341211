"""The rounds of a run: when, who with whom, how long, how far the training was.

Seconds and bytes come from `rounds.jsonl`. Who exchanged with whom comes from the same rows where
they say so, and else from the plan in the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from testbed.report.formats import number
from topologies.model import Direction

EVERYBODY = "everybody"


@dataclass(frozen=True)
class Clique:
    """Islands that exchanged in a round, in the order of the data's way for a ring."""

    sites: tuple[str, ...]
    kind: str
    sync_s: float | None = None
    predicted_s: float | None = None


@dataclass(frozen=True)
class Round:
    """One round that every island finished.

    Attributes:
        number: as the workers count, from 0.
        plan_round: index of the plan's round that was run.
        start: UNIX seconds at which its window begins; `end` is where it ends.
        figures: every other number of its row, by the row's names; see docs/run-record.md.
        cliques: who exchanged; islands in none of them were idle.
        link_bytes: what entered each direction in the round's window.
    """

    number: int
    plan_round: int
    start: float
    end: float
    figures: Mapping[str, float]
    cliques: tuple[Clique, ...]
    link_bytes: Mapping[str, int]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of collectives that ran, each once."""
        return tuple(dict.fromkeys(clique.kind for clique in self.cliques))

    @property
    def wan_bytes(self) -> int:
        """What entered the links between cities, each link counted."""
        return sum(count for name, count in self.link_bytes.items() if not is_access(name))

    @property
    def exchange_s(self) -> float | None:
        """Seconds from the first island ready to exchange to the last with its result."""
        sync, wait = self.figures.get("sync_s"), self.figures.get("wait_s", 0.0)
        return None if sync is None else sync + wait


def is_access(direction: str) -> bool:
    """Return whether a direction, as it is written, belongs to an access port."""
    return Direction.parse(direction).is_access


def rounds_of(
    rows: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any], sites: Sequence[str]
) -> list[Round]:
    """Return the rounds that are recorded, in order.

    Args:
        rows: of `rounds.jsonl`.
        manifest: whose plan says who exchanged where a row does not.
        sites: of everybody, where neither does.
    """
    whole = [row for row in rows if {"round", "start", "end"} <= set(row)]
    return [_round(row, manifest, tuple(sites)) for row in whole]


def _round(row: Mapping[str, Any], manifest: Mapping[str, Any], sites: tuple[str, ...]) -> Round:
    place = plan_place(row, manifest.get("plan") or {})
    figures = {name: read for name, value in row.items() if (read := number(value)) is not None}
    return Round(
        number=int(row["round"]),
        plan_round=place,
        start=float(row["start"]),
        end=float(row["end"]),
        figures=figures,
        cliques=cliques_of(row, place, manifest, sites),
        link_bytes=dict(row.get("link_bytes") or {}),
    )


def plan_place(row: Mapping[str, Any], plan: Mapping[str, Any]) -> int:
    """Return which of the plan's rounds a row ran: as it says, else by the plan's cycle."""
    if isinstance(row.get("plan_round"), int):
        return int(row["plan_round"])
    cycle = plan.get("cycle") or range(max(1, len(plan.get("rounds") or ())))
    return int(cycle[int(row["round"]) % len(cycle)])


def cliques_of(
    row: Mapping[str, Any], place: int, manifest: Mapping[str, Any], sites: tuple[str, ...]
) -> tuple[Clique, ...]:
    """Return the cliques of a row: its own, else the plan's, else everybody."""
    if row.get("cliques") is not None:
        return tuple(_measured_clique(clique) for clique in row["cliques"])
    planned = planned_rounds(manifest)
    if place < len(planned):
        return planned[place]
    return (Clique(sites, EVERYBODY),) if sites else ()


def _measured_clique(clique: Mapping[str, Any]) -> Clique:
    return Clique(
        tuple(clique.get("sites") or ()),
        str(clique.get("kind", "")),
        number(clique.get("sync_s")),
        number(clique.get("predicted_s")),
    )


def planned_rounds(manifest: Mapping[str, Any]) -> list[tuple[Clique, ...]]:
    """Return the cliques of every round of the plan, those of one island left out."""
    plan = manifest.get("plan") or {}
    return [
        tuple(
            Clique(tuple(sites), str(planned.get("collective", "")))
            for sites in planned.get("cliques") or ()
            if len(sites) > 1
        )
        for planned in plan.get("rounds") or ()
    ]


def elapsed_s(rounds: Sequence[Round]) -> list[float]:
    """Return, for each round, the seconds from the first local step to its end."""
    return [one.end - rounds[0].start for one in rounds]


def sent_bytes(rounds: Sequence[Round]) -> list[int]:
    """Return, for each round, what the WAN had carried by its end."""
    return list(accumulate(one.wan_bytes for one in rounds))


def column(rounds: Sequence[Round], name: str) -> list[float | None]:
    """Return one figure of every round, None where a round has none."""
    return [one.figures.get(name) for one in rounds]


def has(rounds: Sequence[Round], name: str) -> bool:
    """Return whether any round has that figure."""
    return any(name in one.figures for one in rounds)
