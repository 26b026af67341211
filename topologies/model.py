"""What a network is: sites, links and their directions, as plain data with units.

A *site* is a city with a WAN switch and an *island* of compute behind it. A *link* joins two
sites; everything physical about it (rate, one-way delay, jitter, loss, queue) belongs to one of
its two *directions*, because each direction has its own transmitter and its own queue, and because
"the delay of a link" leaves open whether a round trip is meant. An island hangs on its switch by an
*access port*, which has two directions as well.

Delays are one-way and in milliseconds, rates in Mbit/s of 10^6 bits. Everything is sorted by site
code on construction, so that no result depends on the order in which a file lists things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

ISLAND_SUFFIX = ".island"
ETHERNET_HEADER_BYTES = 14


@dataclass(frozen=True)
class Site:
    """A city: its code, its name and where it is, in degrees."""

    code: str
    city: str
    latitude: float
    longitude: float


@dataclass(frozen=True)
class DirectionSpec:
    """What one direction of a link does to traffic.

    Attributes:
        rate_mbps: bits put on the wire per microsecond.
        one_way_delay_ms: propagation delay, without queueing and transmission.
        jitter_ms: spread of the delay, at most the delay itself.
        loss_pct: random loss, 0 to 100.
        queue_ms: longest wait in the queue; None leaves it to the link back-end, which derives it
            from rate and delay.
        loss_burst_packets: mean number of packets lost in a row; None for packets lost one by one.
        duplicate_pct: packets that arrive twice, 0 to 100.
        corrupt_pct: packets that arrive with one bit wrong, 0 to 100.

    Raises:
        ValueError: for a value that no link can have.
    """

    rate_mbps: float
    one_way_delay_ms: float
    jitter_ms: float = 0.0
    loss_pct: float = 0.0
    queue_ms: float | None = None
    loss_burst_packets: float | None = None
    duplicate_pct: float = 0.0
    corrupt_pct: float = 0.0

    def __post_init__(self) -> None:
        possible = (
            0 < self.rate_mbps < inf
            and 0 <= self.jitter_ms <= self.one_way_delay_ms < inf
            and all(
                0 <= pct <= 100 for pct in (self.loss_pct, self.duplicate_pct, self.corrupt_pct)
            )
            and (self.queue_ms is None or 0 < self.queue_ms < inf)
            and (self.loss_burst_packets is None or self._bursts_are_possible)
        )
        if not possible:
            raise ValueError(f"no link direction can be {self}")

    @property
    def _bursts_are_possible(self) -> bool:
        burst = self.loss_burst_packets or 0.0
        return shortest_burst_packets(self.loss_pct) <= burst < inf

    def scaled(self, rate_scale: float) -> DirectionSpec:
        """Return this direction with its rate multiplied; times and loss stay real."""
        return replace(self, rate_mbps=self.rate_mbps * rate_scale)


def shortest_burst_packets(loss_pct: float) -> float:
    """Return the shortest mean burst that this loss can come in; infinite for nothing but loss.

    Between two bursts at least one packet arrives, so of bursts of b packets at most b / (b + 1)
    of all packets are lost.
    """
    return max(1.0, loss_pct / (100 - loss_pct)) if loss_pct < 100 else inf


def frame_ms(mtu_bytes: int, rate_mbps: float) -> float:
    """Return the time in ms that a full Ethernet frame occupies the transmitter."""
    return (mtu_bytes + ETHERNET_HEADER_BYTES) * 8 / (rate_mbps * 1000)


@dataclass(frozen=True)
class Link:
    """Two sites joined; `forward` is the direction a>b, `backward` is b>a."""

    a: str
    b: str
    forward: DirectionSpec
    backward: DirectionSpec

    def oriented(self) -> Link:
        """Return the same link with its ends in alphabetical order."""
        if self.a <= self.b:
            return self
        return Link(self.b, self.a, self.backward, self.forward)


def Access(  # noqa: N802 (reads as the third kind of thing beside Site and Link)
    rate_mbps: float, one_way_delay_ms: float = 0.0, queue_ms: float | None = None
) -> DirectionSpec:
    """Return the spec of an island's access port, the same up and down."""
    return DirectionSpec(rate_mbps, one_way_delay_ms, queue_ms=queue_ms)


@dataclass(frozen=True, order=True)
class Direction:
    """One way over one link, written `NYC>LON`; an island's end is written `NYC.island`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}>{self.target}"

    @classmethod
    def parse(cls, text: str) -> Direction:
        """Read `NYC>LON`; raises ValueError for anything else."""
        source, arrow, target = text.partition(">")
        if not (source and arrow and target) or ">" in target:
            raise ValueError(f"{text!r} is not a direction such as 'NYC>LON'")
        return cls(source, target)

    @classmethod
    def up(cls, code: str) -> Direction:
        """Return the access direction from the island to its switch."""
        return cls(code + ISLAND_SUFFIX, code)

    @classmethod
    def down(cls, code: str) -> Direction:
        """Return the access direction from the switch to its island."""
        return cls(code, code + ISLAND_SUFFIX)

    @property
    def reverse(self) -> Direction:
        """The other direction of the same link."""
        return Direction(self.target, self.source)

    @property
    def is_access(self) -> bool:
        """Whether one end is an island."""
        return self.source.endswith(ISLAND_SUFFIX) or self.target.endswith(ISLAND_SUFFIX)


@dataclass(frozen=True)
class Topology:
    """Sites, the links between them and each island's access port.

    Sites and links are sorted, links run from the smaller to the larger code.

    Raises:
        ValueError: for a site or link that is there twice, a link to an unknown site or to itself,
            or a site without access. (Files are checked earlier, with line numbers.)
    """

    name: str
    sites: tuple[Site, ...]
    links: tuple[Link, ...]
    access: Mapping[str, DirectionSpec] = field(hash=False)
    source: str
    licence: str
    mtu_bytes: int = 9000

    def __post_init__(self) -> None:
        object.__setattr__(self, "sites", tuple(sorted(self.sites, key=lambda site: site.code)))
        oriented = sorted((link.oriented() for link in self.links), key=lambda x: (x.a, x.b))
        object.__setattr__(self, "links", tuple(oriented))
        object.__setattr__(self, "access", dict(sorted(self.access.items())))
        self._check()

    def _check(self) -> None:
        codes = set(self.codes)
        _refuse_repeats("site", self.codes)
        _refuse_repeats("link", tuple(f"{link.a}-{link.b}" for link in self.links))
        for link in self.links:
            if link.a == link.b or not {link.a, link.b} <= codes:
                raise ValueError(f"link {link.a}-{link.b} does not join two sites of {self.name}")
        if set(self.access) != codes:
            odd = ", ".join(sorted(set(self.access) ^ codes))
            raise ValueError(f"access is not given for exactly the sites of {self.name}: {odd}")

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """The site codes, sorted."""
        return tuple(site.code for site in self.sites)

    @cached_property
    def _site_of(self) -> dict[str, Site]:
        return {site.code: site for site in self.sites}

    def site(self, code: str) -> Site:
        """Return the site of that code; raises KeyError."""
        return self._site_of[code]

    def wan_directions(self) -> Mapping[Direction, DirectionSpec]:
        """Return both directions of every link, sorted."""
        return self._wan

    @cached_property
    def _wan(self) -> dict[Direction, DirectionSpec]:
        both = {Direction(link.a, link.b): link.forward for link in self.links}
        both |= {Direction(link.b, link.a): link.backward for link in self.links}
        return dict(sorted(both.items()))

    def access_directions(self) -> Mapping[Direction, DirectionSpec]:
        """Return the way up and the way down of every island, sorted."""
        return self._access

    @cached_property
    def _access(self) -> dict[Direction, DirectionSpec]:
        both = {Direction.up(code): spec for code, spec in self.access.items()}
        both |= {Direction.down(code): spec for code, spec in self.access.items()}
        return dict(sorted(both.items()))

    def directions(self) -> Mapping[Direction, DirectionSpec]:
        """Return every direction of the network, WAN and access, sorted."""
        return self._directions

    @cached_property
    def _directions(self) -> dict[Direction, DirectionSpec]:
        return dict(sorted((self._wan | self._access).items()))

    def neighbours(self, code: str) -> tuple[str, ...]:
        """Return the codes one link away, sorted; raises KeyError for an unknown site."""
        self.site(code)
        ends = [(link.a, link.b) for link in self.links if code in (link.a, link.b)]
        return tuple(sorted(b if a == code else a for a, b in ends))

    def scaled(self, rate_scale: float) -> Topology:
        """Return this network with every rate multiplied by `rate_scale`; delays stay real."""
        if not rate_scale > 0:
            raise ValueError(f"rate_scale {rate_scale} is not positive")
        links = tuple(
            replace(x, forward=x.forward.scaled(rate_scale), backward=x.backward.scaled(rate_scale))
            for x in self.links
        )
        access = {code: spec.scaled(rate_scale) for code, spec in self.access.items()}
        return replace(self, links=links, access=access)


def _refuse_repeats(kind: str, names: tuple[str, ...]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"{kind} {repeated[0]} is there twice")
