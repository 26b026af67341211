"""What an accelerator is told about a tree, and what it counts: data and its line format. No I/O.

An accelerator learns its place in a tree from the testbed, over a socket that only the testbed has,
and never from the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from ipaddress import AddressValueError, IPv4Address
from typing import NamedTuple

from topologies.errors import UserError

FAN_IN_MAX = 64
WINDOW_MAX = 1 << 15
MEMBERS_MAX = 1024


class Address(NamedTuple):
    """An IPv4 address and a UDP port."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"{self.ip}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `10.0.0.1:7000`; raises UserError for anything else."""
        ip, _, port = text.partition(":")
        try:
            address = cls(str(IPv4Address(ip)), int(port))
        except (AddressValueError, ValueError):
            raise UserError(f"{text!r} is no address: write it like 10.0.0.1:7000") from None
        if not 1 <= address.port <= 65535:
            raise UserError(f"{text!r}: a port is 1 to 65535")
        return address


@dataclass(frozen=True)
class TreeConfig:
    """One accelerator's place in one aggregation tree of one job.

    Attributes:
        job: number of the job, 64 bits.
        tree: number of the tree within the job.
        key: secret of the job; seeds the check of every packet.
        window: slots; the same at every accelerator and member of the tree.
        leaves: members that contribute below this accelerator.
        children: whose packets are summed, by child index: unicast addresses they send from.
        members: who may ask at the root, by member index; elsewhere it may be empty.
        up: where sums go; None at the root.
        child: this accelerator's index at its parent.
        results: where the root sends each result: the group, or one receiver, or several.
        notices: who is told by DONE which sequences are complete.
        notice_every: a DONE for every so many sequences.
        hold_us: time in which the same repetition is not asked for, or made, a second time.

    Raises:
        UserError: for a configuration that makes no sense, naming the field.
    """

    job: int
    tree: int
    key: int
    window: int
    leaves: int
    children: tuple[Address, ...]
    members: tuple[Address, ...] = ()
    up: Address | None = None
    child: int = 0
    results: tuple[Address, ...] = ()
    notices: tuple[Address, ...] = ()
    notice_every: int = 16
    hold_us: int = 5000

    def __post_init__(self) -> None:
        limits = {
            "job": (0, 2**64 - 1),
            "tree": (0, 65535),
            "key": (0, 2**64 - 1),
            "window": (1, WINDOW_MAX),
            "leaves": (1, 65535),
            "child": (0, FAN_IN_MAX - 1),
            "notice_every": (1, 64),
            "hold_us": (0, 60_000_000),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise UserError(f"accelerator tree: {name} {value} is not {least} to {most}")
        if not 1 <= len(self.children) <= FAN_IN_MAX:
            raise UserError(f"accelerator tree: {len(self.children)} children, not 1 to 64")
        if len(self.members) > MEMBERS_MAX:
            raise UserError(f"accelerator tree: over {MEMBERS_MAX} members")
        if (self.up is None) != bool(self.results):
            raise UserError(
                "accelerator tree: the root has results and no up, the others the reverse"
            )

    @property
    def is_root(self) -> bool:
        """Whether sums are whole here and go down."""
        return self.up is None

    def words(self) -> str:
        """Return the configuration as `key=value` separated by blanks."""
        named = ((item.name, getattr(self, item.name)) for item in fields(self))
        return " ".join(
            f"{name}={_text(value)}" for name, value in named if value not in ((), None)
        )


def _text(value: object) -> str:
    if isinstance(value, tuple) and not isinstance(value, Address):
        return ",".join(map(str, value))
    return str(value)


@dataclass
class TreeCounters:
    """What an accelerator counted for one tree; packets unless said.

    Attributes:
        packets: packets of this tree that came in.
        packet_bytes: UDP payload bytes of these.
        contributions: DATA that were added.
        sums: sequences whose children were all in.
        duplicates: DATA of a child that was in already.
        stale: DATA of a sequence whose set holds a newer one.
        conflicts: DATA of another shape than what was summed before it.
        evictions: incomplete sums given up for a newer sequence.
        foreign: packets from an address that is not the child's or member's.
        corrupt: packets with a wrong check.
        stray: packets of a type that nobody sends to an accelerator, or not here.
        flushes: FLUSH that came in.
        asks: questions for a result.
        late: answers to these out of a set.
        lost: answers that there will be no result.
        gaps: packet numbers found missing.
        resends: RESEND sent, by number and by sequence.
        repeats: own sums sent again to the parent.
        notices: DONE sent unasked, each receiver counted.
        sent: packets sent, of all types.
    """

    packets: int = 0
    packet_bytes: int = 0
    contributions: int = 0
    sums: int = 0
    duplicates: int = 0
    stale: int = 0
    conflicts: int = 0
    evictions: int = 0
    foreign: int = 0
    corrupt: int = 0
    stray: int = 0
    flushes: int = 0
    asks: int = 0
    late: int = 0
    lost: int = 0
    gaps: int = 0
    resends: int = 0
    repeats: int = 0
    notices: int = 0
    sent: int = 0


@dataclass
class ProcessCounters:
    """What an accelerator counted before it knew the tree, and at its sockets.

    Attributes:
        malformed: what came in and is no packet of this protocol.
        unknown: packets of a job or tree that is not open here.
        overflow: packets that the socket had no room for, as the kernel counts them.
        unsent: packets that the kernel did not take.
        in_dropped: packets dropped by the injector on their way in.
        in_duplicated: packets doubled there.
        out_dropped: packets dropped by the injector on their way out.
        out_duplicated: packets doubled there.
        busy_us: time spent at work rather than waiting.
        throttled_us: time spent waiting because of the rate limit.
    """

    malformed: int = 0
    unknown: int = 0
    overflow: int = 0
    unsent: int = 0
    in_dropped: int = 0
    in_duplicated: int = 0
    out_dropped: int = 0
    out_duplicated: int = 0
    busy_us: int = 0
    throttled_us: int = 0


@dataclass(frozen=True)
class Counters:
    """All counters of one accelerator; trees by (job, tree)."""

    process: ProcessCounters = field(default_factory=ProcessCounters)
    trees: Mapping[tuple[int, int], TreeCounters] = field(default_factory=dict)


def parse_counters(lines: Sequence[str]) -> Counters:
    """Read the answer to `counters`: a line `process ...`, then a line `tree job=.. tree=.. ...`.

    Raises:
        ValueError: for lines that are not of this format.
    """
    process = ProcessCounters()
    trees: dict[tuple[int, int], TreeCounters] = {}
    for line in lines:
        kind, *words = line.split()
        values = {key: int(value) for key, value in (word.split("=", 1) for word in words)}
        if kind == "process":
            process = ProcessCounters(**values)
        elif kind == "tree":
            numbers = values.pop("job"), values.pop("tree")
            trees[numbers] = TreeCounters(**values)
        else:
            raise ValueError(f"the accelerator answered {line!r}")
    return Counters(process, trees)
