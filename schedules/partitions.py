"""All ways to divide islands into cliques, as arrays.

A partition of n islands is a row of bit masks, one for each clique with two members or more, padded
with zeros; idle islands appear in none. There are Bell(n) partitions (1, 2, 5, 15, 52, 203, 877,
4140, 21147 for nine, 4213597 for twelve), built here site by site: a site joins each block that is
there already, or stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

MaskArray = NDArray[np.uint16]

ENUMERATED_SITES = 12
BELL = (1, 1, 2, 5, 15, 52, 203, 877, 4140, 21147, 115975, 678570, 4213597)


@lru_cache(maxsize=4)
def all_partitions(sites: int) -> MaskArray:
    """Return (Bell(n), n // 2) the clique masks of every partition, larger masks first.

    Raises:
        ValueError: for more than `ENUMERATED_SITES`; their number would not fit in memory.
    """
    if not 1 <= sites <= ENUMERATED_SITES:
        raise ValueError(f"{sites} sites are not within 1 to {ENUMERATED_SITES}")
    blocks = np.zeros((1, sites), dtype=np.uint16)
    used = np.zeros(1, dtype=np.int64)
    for site in range(sites):
        blocks, used = _with_site(blocks, used, site)
    blocks[(blocks & (blocks - 1)) == 0] = 0
    blocks.sort(axis=1)
    return np.ascontiguousarray(blocks[:, ::-1][:, : max(1, sites // 2)])


def _with_site(
    blocks: MaskArray, used: NDArray[np.int64], site: int
) -> tuple[MaskArray, NDArray[np.int64]]:
    choices = used + 1
    rows = np.repeat(np.arange(len(blocks)), choices)
    joined = np.arange(len(rows)) - np.repeat(np.cumsum(choices) - choices, choices)
    grown = blocks[rows]
    grown[np.arange(len(rows)), joined] |= np.uint16(1 << site)
    return grown, np.maximum(used[rows], joined + 1)


def members(mask: int) -> tuple[int, ...]:
    """Return the site numbers of a mask, ascending."""
    return tuple(site for site in range(mask.bit_length()) if mask >> site & 1)


def mask_of(sites: Sequence[int]) -> int:
    """Return the mask of site numbers."""
    return sum(1 << site for site in sites)


def cliques(row: Sequence[int] | MaskArray) -> list[tuple[int, ...]]:
    """Return the cliques of a row of masks, sorted."""
    return sorted(members(int(mask)) for mask in row if mask)


@lru_cache(maxsize=4)
def sizes(sites: int) -> NDArray[np.int16]:
    """Return (2^n,) the number of members of every mask."""
    counts = np.zeros(1 << sites, dtype=np.int16)
    for site in range(sites):
        counts[1 << site : 2 << site] = counts[: 1 << site] + 1
    return counts


def chunks(rows: int, chunk: int = 1 << 16) -> Iterator[slice]:
    """Yield slices that cover a number of rows, so that temporary arrays stay small."""
    for start in range(0, rows, chunk):
        yield slice(start, min(rows, start + chunk))
