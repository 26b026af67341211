"""A clique: the workers of a job that take part in one collective, as one of them sees it."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.collectives.roster import Roster
from workloads.errors import UsageError


@dataclass(frozen=True)
class Clique:
    """Which workers take part, and which of them this one is.

    Attributes:
        ranks: the members' ranks in the job, in ascending order.
        rank: this worker's rank in the job, one of them.
        roster: the names of all ranks of the job.
    """

    ranks: tuple[int, ...]
    rank: int
    roster: Roster

    def __post_init__(self) -> None:
        if self.rank not in self.ranks or sorted(set(self.ranks)) != list(self.ranks):
            raise UsageError(
                f"clique {self.ranks} of rank {self.rank}: give distinct ranks in ascending "
                "order, this worker's among them"
            )

    @classmethod
    def of_all(cls, rank: int, roster: Roster) -> Clique:
        """Return the clique of all workers of the job."""
        return cls(tuple(range(roster.size)), rank, roster)

    @property
    def label(self) -> str:
        """What tells this clique from others of the job on the notice board."""
        return "-".join(str(rank) for rank in self.ranks)

    @property
    def index(self) -> int:
        """This worker's place among the members."""
        return self.ranks.index(self.rank)

    @property
    def peers(self) -> tuple[int, ...]:
        """The ranks of the other members."""
        return tuple(rank for rank in self.ranks if rank != self.rank)

    def __len__(self) -> int:
        return len(self.ranks)
