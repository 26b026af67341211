"""Who meets whom in which round: the plan as workers are told it.

A schedule is a JSON file, the same for all workers:

    {"format": 1, "sites": ["AMS", "FRA", "LON", "NYC"],
     "rounds": [{"cliques": [{"ranks": [0, 1], "kind": "exchange"},
                             {"ranks": [3, 2], "kind": "ring"}], "predicted_s": 1.5},
                {"cliques": [{"ranks": [0, 2], "kind": "multicast"}]}],
     "cycle": [0, 1, 1], "exact_mean": false}

The place of a site is the rank of its worker. Round r of the training is `rounds[cycle[r modulo the
length of the cycle]]`. Islands in no clique of a round are idle in it: they train on. The ranks of
a `ring` stand in the order in which data flows, each sending to the next; those of other kinds in
ascending order. A clique of `exchange` may say `pace_mbps`, at most what each of its connections
sends. A field `final`, `{"ranks": [...], "kind": ...}` of all ranks, may say how islands take the
mean after the last round.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from workloads.collectives.names import ALL_KINDS, EXCHANGE, RING
from workloads.collectives.ring import downward_flow
from workloads.collectives.roster import Roster
from workloads.errors import UsageError

FORMAT = 1


@dataclass(frozen=True)
class ScheduledClique:
    """Islands that average among themselves.

    Attributes:
        kind: of collective.
        ranks: those that take part.
        pace_mbps: what each connection of `exchange` sends at most; None for as TCP will.
    """

    kind: str
    ranks: tuple[int, ...]
    pace_mbps: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ScheduledRound:
    """The cliques that work at the same time, and how long that should take, where known."""

    cliques: tuple[ScheduledClique, ...]
    predicted_s: float | None = None

    def clique_of(self, rank: int) -> ScheduledClique | None:
        """Return the clique of a rank, or None where it is idle."""
        return next((clique for clique in self.cliques if rank in clique.ranks), None)


@dataclass(frozen=True)
class Schedule:
    """The rounds of a training.

    Attributes:
        size: workers of the job.
        rounds: the different rounds.
        cycle: their order, repeated for ever.
        sites: the site of each rank, or nothing.
        exact_mean: whether one cycle of plain averaging, without training, is the exact mean.
        ends_in_mean: whether islands take the mean of all once more after the last round.
        asked_final: the clique of everyone for that mean, where one is asked for.
    """

    size: int
    rounds: tuple[ScheduledRound, ...]
    cycle: tuple[int, ...]
    sites: tuple[str, ...] = ()
    exact_mean: bool = False
    ends_in_mean: bool = True
    asked_final: ScheduledClique | None = None

    @classmethod
    def of_all(cls, kind: str, size: int) -> Schedule:
        """Return the schedule in which all workers meet in every round."""
        ranks = downward_flow(size) if kind == RING else tuple(range(size))
        everyone = ScheduledRound((ScheduledClique(kind, ranks),))
        return cls(size, (everyone,), (0,), exact_mean=True, ends_in_mean=False)

    def plan_round(self, number: int) -> int:
        """Return which of the different rounds is round `number` of the training."""
        return self.cycle[number % len(self.cycle)]

    def meets_all(self, number: int) -> bool:
        """Return whether all workers are in one clique in round `number`."""
        cliques = self.rounds[self.plan_round(number)].cliques
        return len(cliques) == 1 and len(cliques[0].ranks) == self.size

    @cached_property
    def final(self) -> ScheduledClique:
        """The clique of everyone after the last round: as asked for, else the plan's, if any."""
        if self.asked_final is not None:
            return self.asked_final
        whole = [one for one in self._in_order() if len(one.ranks) == self.size]
        return whole[0] if whole else ScheduledClique(EXCHANGE, tuple(range(self.size)))

    @cached_property
    def distinct(self) -> tuple[ScheduledClique, ...]:
        """Every clique once, the last mean's included, in the order in which they first come."""
        last = (self.final,) if self.ends_in_mean else ()
        return tuple(dict.fromkeys((*self._in_order(), *last)))

    @property
    def longest_s(self) -> float:
        """The longest time that any round is predicted to take; 0 where nothing is predicted."""
        return max((one.predicted_s or 0.0 for one in self.rounds), default=0.0)

    @property
    def words(self) -> str:
        """What all workers must have in common, in one word."""
        said = repr((self.rounds, self.cycle, self.asked_final))
        return hashlib.sha256(said.encode()).hexdigest()[:12]

    def _in_order(self) -> Iterator[ScheduledClique]:
        return (clique for one in self.rounds for clique in one.cliques)


def load_schedule(path: Path, roster: Roster) -> Schedule:
    """Read a schedule.

    Raises:
        UsageError: there is no such file, or a field is missing or wrong, or the schedule is for
            other workers; the text names file and field.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    try:
        return _schedule(document, roster)
    except _FieldError as error:
        raise UsageError(f"{path}: {error}") from error


class _FieldError(Exception):
    """What is wrong with which field."""


def _schedule(document: Any, roster: Roster) -> Schedule:
    if _field(document, "format", int, "the file") != FORMAT:
        raise _FieldError(f"format: {document['format']}; this version reads {FORMAT}")
    sites = tuple(str(site) for site in _field(document, "sites", list, "the file"))
    _require_these_workers(sites, roster)
    rounds = tuple(
        _round(row, f"rounds[{number}]", len(sites))
        for number, row in enumerate(_field(document, "rounds", list, "the file"))
    )
    cycle = tuple(_field(document, "cycle", list, "the file"))
    for place, number in enumerate(cycle):
        if type(number) is not int or not 0 <= number < len(rounds):
            raise _FieldError(f"cycle[{place}]: {number!r}; give 0 to {len(rounds) - 1}")
    if not cycle:
        raise _FieldError("cycle: empty; give the numbers of rounds")
    exact_mean = _field(document, "exact_mean", bool, "the file")
    final = _final(document["final"], len(sites)) if document.get("final") else None
    return Schedule(len(sites), rounds, cycle, sites, exact_mean, asked_final=final)


def _final(row: Any, size: int) -> ScheduledClique:
    final = _clique(row, "final", size)
    if len(final.ranks) != size:
        raise _FieldError(f"final.ranks: {list(final.ranks)}; give all {size} ranks")
    return final


def _require_these_workers(sites: tuple[str, ...], roster: Roster) -> None:
    if len(sites) != roster.size:
        raise _FieldError(f"sites: {len(sites)} for {roster.size} workers; give one a rank")
    if roster.sites and sites != roster.sites:
        rank = next(r for r in range(roster.size) if sites[r] != roster.sites[r])
        raise _FieldError(f"sites[{rank}]: {sites[rank]}, but rank {rank} is {roster.sites[rank]}")


def _round(row: Any, where: str, size: int) -> ScheduledRound:
    cliques = tuple(
        _clique(one, f"{where}.cliques[{number}]", size)
        for number, one in enumerate(_field(row, "cliques", list, where))
    )
    everyone = [rank for clique in cliques for rank in clique.ranks]
    for rank in everyone:
        if everyone.count(rank) > 1:
            raise _FieldError(f"{where}: rank {rank} is in two cliques; a round's are disjoint")
    predicted_s = row.get("predicted_s")
    if predicted_s is not None and not isinstance(predicted_s, int | float):
        raise _FieldError(f"{where}.predicted_s: {predicted_s!r}; give seconds or null")
    return ScheduledRound(cliques, predicted_s)


def _clique(row: Any, where: str, size: int) -> ScheduledClique:
    kind = _field(row, "kind", str, where)
    ranks = tuple(_field(row, "ranks", list, where))
    if kind not in ALL_KINDS:
        raise _FieldError(f"{where}.kind: {kind}; one of {', '.join(ALL_KINDS)}")
    if any(type(rank) is not int or not 0 <= rank < size for rank in ranks):
        raise _FieldError(f"{where}.ranks: {list(ranks)}; give ranks from 0 to {size - 1}")
    if len(ranks) < 2 or len(set(ranks)) != len(ranks):
        raise _FieldError(f"{where}.ranks: {list(ranks)}; give two distinct ranks or more")
    if kind != RING and sorted(ranks) != list(ranks):
        raise _FieldError(f"{where}.ranks: {list(ranks)}; give those of {kind} in ascending order")
    pace_mbps = row.get("pace_mbps")
    if pace_mbps is not None and not (_is_number(pace_mbps) and pace_mbps > 0):
        raise _FieldError(f"{where}.pace_mbps: {pace_mbps!r}; give a number above 0, or null")
    return ScheduledClique(kind, ranks, pace_mbps)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _field(row: Any, name: str, kind: type, where: str) -> Any:
    """Return a field of a JSON object, of the type that it must have."""
    if not isinstance(row, dict):
        raise _FieldError(f"{where}: {row!r}; give an object")
    if name not in row:
        raise _FieldError(f'{where}: has no field "{name}"')
    if not isinstance(row[name], kind) or (kind is int and isinstance(row[name], bool)):
        raise _FieldError(f"{where}: {name} is {row[name]!r}; give {_NAMES[kind]}")
    return row[name]


_NAMES = {int: "a whole number", str: "a text", list: "a list", bool: "true or false"}
