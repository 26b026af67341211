"""What the members of a group must know to work with the network: addresses, trees, window, rate.

Whoever builds the network (the testbed, or an operator) writes it from the plan as one JSON file
for all members: `{"groups": [...]}`, one object for each clique and kind of collective, with the
fields of `GroupJob`. A worker finds its group by the ranks of its clique. Several groups of one
kind and clique are the parts of its messages, in their order, each with a `share`. Nothing in it is
a secret but `key`, which seeds the packets' checksums: let nobody but the workers read the file.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from workloads.collectives.names import INNETWORK, NETWORK_KINDS
from workloads.errors import UsageError

HEADER_BYTES = 64
FRAME_OVERHEAD_BYTES = 42  # Ethernet, IPv4 and UDP headers
WINDOW_MARGIN = 2.0  # a repair takes a round trip, and nobody is to wait for it
WINDOW_LIMIT = 4096
SHARES_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Place:
    """An IPv4 address and a UDP port."""

    address: str
    port: int

    def __post_init__(self) -> None:
        ipaddress.IPv4Address(self.address)
        if not 0 < self.port < 65536:
            raise ValueError(f"port {self.port}: 1 to 65535")

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class MemberPlace:
    """A member of a group: its rank in the job, its site, and its own address and UDP port."""

    rank: int
    site: str
    place: Place


@dataclass(frozen=True)
class TreeJob:
    """One tree of a group.

    Attributes:
        number: the tree's number within the job, in every packet.
        leaves: places (in `GroupJob.members`) of the members that send into it. For `multicast`
            one, the source.
        children: the leaves' child indices, each at the accelerator that receives from it.
        entry: the tree's own virtual address, to which leaves send; for `multicast` the group.
        root: the root accelerator, which a receiver can ask by unicast; None for `multicast`.
        group: where results come down by multicast; None where they come by unicast.
        receiver: the place of the one member that receives (`aggregation`); None for all.
    """

    number: int
    leaves: tuple[int, ...]
    children: tuple[int, ...]
    entry: Place
    root: Place | None = None
    group: Place | None = None
    receiver: int | None = None


@dataclass(frozen=True)
class GroupJob:
    """One clique's work with the network.

    Attributes:
        kind: `multicast`, `aggregation` or `innetwork`.
        job: the job's number, 64 bits, random for each run and group.
        key: 64 secret bits, which seed the checksum.
        window: sequences that may be under way on a tree, the same for members and accelerators.
        area_bytes: bytes of a packet behind its header, at most: MTU - 28 - 64, a multiple of 8.
        rate_mbps: the rate at which one copy of a member's stream is sent, headers included: the
            slowest direction's rate divided by the plan's transfer units, times the share.
        round_trip_ms: from a member up the longest tree and down again, without queues.
        members: in ascending order of rank.
        trees: all trees of the group.
        share: the part of each message that the group carries.
        frames_ms: what a full packet takes on all links of its way, up and down: no queue.
    """

    kind: str
    job: int
    key: int
    window: int
    area_bytes: int
    rate_mbps: float
    round_trip_ms: float
    members: tuple[MemberPlace, ...]
    trees: tuple[TreeJob, ...]
    share: float = 1.0
    frames_ms: float = 0.0

    def __post_init__(self) -> None:
        for wrong, why in _complaints(self):
            if wrong:
                raise ValueError(f"group of {self.kind}: {why}")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The members' ranks in the job."""
        return tuple(member.rank for member in self.members)

    @classmethod
    def from_mapping(cls, row: Mapping[str, Any]) -> GroupJob:
        """Return a group from what JSON made of it; raises ValueError, KeyError or TypeError."""
        unknown = set(row) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown field {sorted(unknown)[0]}")
        members = tuple(
            MemberPlace(int(m["rank"]), str(m["site"]), Place(**m["place"])) for m in row["members"]
        )
        trees = tuple(_tree(tree) for tree in row["trees"])
        return cls(**{**row, "members": members, "trees": trees})


def _complaints(group: GroupJob) -> Iterable[tuple[bool, str]]:
    members = len(group.members)
    yield group.kind not in NETWORK_KINDS, f"kind is one of {', '.join(NETWORK_KINDS)}"
    yield members < 2, "give at least two members"
    yield list(group.ranks) != sorted(set(group.ranks)), "give members in ascending order of rank"
    yield not 0 < group.window <= WINDOW_LIMIT, f"window is 1 to {WINDOW_LIMIT}"
    yield not 64 <= group.area_bytes <= 9152 or group.area_bytes % 8 != 0, "area_bytes % 8 is 0"
    yield not 0 < group.rate_mbps < math.inf, "rate_mbps is above 0"
    yield not 0 <= group.round_trip_ms < 60_000, "round_trip_ms is 0 to 60,000"
    yield not 0 <= group.job < 2**64 or not 0 <= group.key < 2**64, "job and key have 64 bits"
    yield not group.trees, "give a tree"
    yield group.kind == INNETWORK and len(group.trees) != 1, "innetwork has one tree"
    yield not 0 < group.share <= 1, "share is above 0, and at most 1"
    yield not 0 <= group.frames_ms < 60_000, "frames_ms is 0 to 60,000"
    for tree in group.trees:
        yield len(tree.children) != len(tree.leaves), "a child index for each leaf"
        yield any(not 0 <= leaf < members for leaf in tree.leaves), "leaves are places of members"


def _tree(row: Mapping[str, Any]) -> TreeJob:
    def place(name: str) -> Place | None:
        return None if row.get(name) is None else Place(**row[name])

    return TreeJob(
        number=int(row["number"]),
        leaves=tuple(int(leaf) for leaf in row["leaves"]),
        children=tuple(int(child) for child in row["children"]),
        entry=Place(**row["entry"]),
        root=place("root"),
        group=place("group"),
        receiver=None if row.get("receiver") is None else int(row["receiver"]),
    )


def window_for(rate_mbps: float, round_trip_ms: float, area_bytes: int) -> int:
    """Return the window that keeps a tree of this rate and round trip busy, with a margin.

    As SwitchML found (arXiv 1903.06701), the window must cover the product of bandwidth and delay.
    """
    packet_bits = 8 * (area_bytes + HEADER_BYTES + FRAME_OVERHEAD_BYTES)
    under_way = rate_mbps * 1e6 * round_trip_ms / 1e3 / packet_bits
    return min(max(math.ceil(WINDOW_MARGIN * under_way) + 16, 32), WINDOW_LIMIT)


def dump_groups(groups: Sequence[GroupJob]) -> str:
    """Return groups as the text of a job file."""
    return json.dumps({"groups": [asdict(group) for group in groups]}, indent=1) + "\n"


def load_groups(path: Path) -> tuple[GroupJob, ...]:
    """Read a job file.

    Raises:
        UsageError: there is no such file, or a field is missing or wrong; the text names it.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["groups"]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f'{path}: not a JSON object with a list "groups": {error}') from error
    groups = []
    for number, row in enumerate(rows):
        try:
            groups.append(GroupJob.from_mapping(row))
        except KeyError as error:
            raise UsageError(f"{path}: group {number} has no field {error}") from error
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: group {number}: {error}") from error
    return tuple(groups)


def groups_for(
    groups: Sequence[GroupJob], kind: str, ranks: tuple[int, ...]
) -> tuple[GroupJob, ...]:
    """Return the groups of some ranks: the parts of their messages, most often one.

    Raises:
        UsageError: there is none, or the parts are not the whole.
    """
    found = tuple(group for group in groups if group.kind == kind and group.ranks == ranks)
    whose = f"{kind} of ranks {list(ranks)}"
    if not found:
        known = "; ".join(f"{group.kind} of {list(group.ranks)}" for group in groups) or "none"
        raise UsageError(f"no group for {whose} in the job: it has {known}")
    whole = math.fsum(group.share for group in found)
    if not math.isclose(whole, 1, abs_tol=SHARES_TOLERANCE):
        raise UsageError(f"groups of {whose}: their shares add up to {whole:g}; they must be 1")
    return found
