"""The names by which workers are called in messages to people: site codes rather than ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workloads.errors import UsageError

SITES_VARIABLE = "ATOLL_SITES"


@dataclass(frozen=True)
class Roster:
    """The workers of a job: how many, and the site code of each rank where known.

    Attributes:
        size: how many.
        sites: their site codes, where known.
        numbers: how messages number them, where that is not 0, 1, ...
    """

    size: int
    sites: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    @classmethod
    def from_environment(cls, size: int, environ: Mapping[str, str]) -> Roster:
        """Read the site codes, in rank order, from `ATOLL_SITES="NYC,LON,..."` if it is set.

        Raises:
            UsageError: the number of codes is not `size`, or a code stands there twice.
        """
        text = environ.get(SITES_VARIABLE, "").strip()
        if not text:
            return cls(size)
        sites = tuple(code.strip() for code in text.split(","))
        if len(sites) != size or len(set(sites)) != size or "" in sites:
            raise UsageError(
                f"{SITES_VARIABLE}={text}: {len(sites)} codes for {size} workers; "
                "give one distinct code a rank, separated by commas"
            )
        return cls(size, sites)

    def site(self, rank: int) -> str | None:
        """Return the site code of a rank, or None where no codes were given."""
        return self.sites[rank] if self.sites else None

    def name(self, rank: int) -> str:
        """Return how a message calls a rank: "LON (rank 3)", or "rank 3" without site codes."""
        site, number = self.site(rank), self.numbers[rank] if self.numbers else rank
        return f"rank {number}" if site is None else f"{site} (rank {number})"

    def part(self, ranks: tuple[int, ...]) -> Roster:
        """Return the roster of some of the ranks, which keep their names."""
        sites = tuple(self.sites[rank] for rank in ranks) if self.sites else ()
        return Roster(len(ranks), sites, ranks)

    def names(self, ranks: Iterable[int]) -> str:
        """Return the names of several ranks, in rank order, separated by commas."""
        return ", ".join(self.name(rank) for rank in sorted(ranks))
