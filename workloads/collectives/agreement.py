"""Do all members ask for the same? A member that differs is an error on all, which names both.

A call is described by a line such as "all-reduce of float32[3, 4]". Members compare the lines, not
what they stand for, so that whatever else a call depends on is simply part of its line.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.collectives.roster import Roster
from workloads.errors import CollectiveError

SIGNATURE_BYTES = 4


class DisagreementError(CollectiveError):
    """Members called for different things, or one of them with what cannot be summed."""


@dataclass(frozen=True)
class Statement:
    """What a member says of its own call.

    Attributes:
        call: what it asks for, in one line; the same on all members, or they disagree.
        fault: why this member cannot take part after all, or "".
    """

    call: str
    fault: str = ""

    @property
    def signature(self) -> bytes:
        """Four bytes that differ, but for one case in four thousand millions, where lines do."""
        return zlib.crc32(self.call.encode()).to_bytes(SIGNATURE_BYTES, "little")


def require_agreement(statements: Mapping[int, Statement], roster: Roster) -> None:
    """Compare what the members say; every member that has all statements finds the same.

    Args:
        statements: by rank.
        roster: the ranks' names.

    Raises:
        DisagreementError: two calls differ, or a member has a fault; the text names them.
    """
    first = min(statements)
    for rank in sorted(statements):
        if statements[rank].call != statements[first].call:
            raise DisagreementError(
                f"{roster.name(rank)} calls for {statements[rank].call} where "
                f"{roster.name(first)} calls for {statements[first].call}"
            )
    faulty: dict[str, list[int]] = {}
    for rank in sorted(statements):
        faulty.setdefault(statements[rank].fault, []).append(rank)
    faults = [f"{roster.names(ranks)}: {fault}" for fault, ranks in faulty.items() if fault]
    if faults:
        raise DisagreementError("; ".join(faults))
