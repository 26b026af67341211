"""What the network can do besides carrying unicast, and which collectives that permits.

Two technologies of the lead paper (Shah and Blier, arXiv:2608.26453) are combined freely:
*multicast* copies outbound traffic in the network and relieves each island's way up, *aggregation*
(in-line FPGAs) sums inbound traffic in the network and relieves each island's way down. Their
limits decide how much of that a plan may use: which sites have an accelerator, how much traffic it
takes in, how many streams it sums, how many groups fit, and which links multicast may use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal, get_args

from topologies.errors import UserError
from topologies.model import Topology

Collective = Literal["exchange", "ring", "multicast", "aggregation", "innetwork"]
COLLECTIVES: tuple[str, ...] = get_args(Collective)
EXCHANGE, RING, MULTICAST, AGGREGATION, INNETWORK = COLLECTIVES
TREE_COLLECTIVES = (MULTICAST, AGGREGATION, INNETWORK)

CapabilityName = Literal["unicast", "multicast", "aggregation", "multicast+aggregation"]
CAPABILITY_NAMES: tuple[str, ...] = get_args(CapabilityName)
OWN_COLLECTIVE = dict(
    zip(CAPABILITY_NAMES, (EXCHANGE, MULTICAST, AGGREGATION, INNETWORK), strict=True)
)


@dataclass(frozen=True)
class Accelerator:
    """An in-line accelerator at a site.

    Attributes:
        rate_mbps: traffic it takes in; unlimited unless given.
        fan_in: streams it can sum into one for one group; those beyond pass unsummed.
    """

    rate_mbps: float = inf
    fan_in: int | None = None

    def __post_init__(self) -> None:
        if not self.rate_mbps > 0:
            raise UserError(f"accelerator rate_mbps {self.rate_mbps} is not above zero")
        if self.fan_in is not None and self.fan_in < 2:
            raise UserError(f"accelerator fan_in {self.fan_in} is below two: it could sum nothing")


@dataclass(frozen=True)
class Capabilities:
    """What a network offers to a plan.

    Attributes:
        multicast: switches copy packets along a tree.
        aggregation: accelerators sum packets along a tree.
        accelerators: by site code; None means an unlimited one at every site.
        max_groups: trees (multicast and aggregation) that can be installed in one round.
        multicast_links: the links, as pairs of codes, that trees may use; None means all.
    """

    multicast: bool = False
    aggregation: bool = False
    accelerators: Mapping[str, Accelerator] | None = field(default=None, hash=False)
    max_groups: int | None = None
    multicast_links: frozenset[tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        if self.max_groups is not None and self.max_groups < 0:
            raise UserError(f"max_groups {self.max_groups} is negative")
        if self.multicast_links is not None and not self.multicast_links:
            raise UserError("multicast_links names no link: leave it out to allow all")

    @classmethod
    def parse(
        cls, name: str, accelerators: Iterable[str] | None = None, **limits: object
    ) -> Capabilities:
        """Read `unicast`, `multicast`, `aggregation` or `multicast+aggregation`.

        Args:
            name: the capability.
            accelerators: codes of the sites that have an (unlimited) accelerator; None for all.
            limits: further fields of this class, such as `max_groups`.

        Raises:
            UserError: for any other name, or accelerators without aggregation.
        """
        if name not in CAPABILITY_NAMES:
            raise UserError(f"capability {name!r} is none of {', '.join(CAPABILITY_NAMES)}")
        words = set(name.split("+"))
        sites = None if accelerators is None else {code: Accelerator() for code in accelerators}
        if sites is not None and "aggregation" not in words:
            raise UserError(f"accelerators are given, but capability {name} has no aggregation")
        return replace(cls("multicast" in words, "aggregation" in words, sites), **limits)  # type: ignore[arg-type]

    def limited_to(self, name: str) -> Capabilities:
        """Return the capability of that name with these limits, as far as they concern it."""
        other = Capabilities.parse(name)
        return replace(
            other,
            accelerators=self.accelerators if other.aggregation else None,
            max_groups=self.max_groups,
            multicast_links=self.multicast_links,
        )

    @property
    def name(self) -> str:
        """The name `parse` reads."""
        parts = [
            word
            for word, there in (("multicast", self.multicast), ("aggregation", self.aggregation))
            if there
        ]
        return "+".join(parts) or "unicast"

    @property
    def collectives(self) -> tuple[str, ...]:
        """The collectives this permits, in the order of `COLLECTIVES`."""
        permitted = {
            EXCHANGE: True,
            RING: True,
            MULTICAST: self.multicast,
            AGGREGATION: self.aggregation,
            INNETWORK: self.multicast and self.aggregation,
        }
        return tuple(name for name in COLLECTIVES if permitted[name])

    def permitted(self, collective: str | None) -> tuple[str, ...]:
        """Return the collectives to choose from: the given one, or all that are permitted.

        Raises:
            UserError: for an unknown collective or one these capabilities do not permit.
        """
        if collective is None:
            return self.collectives
        if collective not in COLLECTIVES:
            raise UserError(f"collective {collective!r} is none of {', '.join(COLLECTIVES)}")
        if collective not in self.collectives:
            raise UserError(
                f"collective {collective} is not possible with capability {self.name}, "
                f"which permits {', '.join(self.collectives)}"
            )
        return (collective,)

    def check(self, topology: Topology) -> None:
        """Raise UserError when a limit names a site or link that the topology does not have."""
        codes = set(topology.codes)
        strangers = sorted(set(self.accelerators or ()) - codes)
        if strangers:
            known = ", ".join(topology.codes)
            raise UserError(
                f"accelerator at {strangers[0]}: no such site in {topology.name}; sites are {known}"
            )
        links = {frozenset((link.a, link.b)) for link in topology.links}
        for pair in sorted(self.multicast_links or ()):
            if frozenset(pair) not in links:
                raise UserError(f"multicast link {'-'.join(pair)}: no such link in {topology.name}")

    def accelerator(self, code: str) -> Accelerator | None:
        """Return the accelerator of a site, None where there is none."""
        if not self.aggregation:
            return None
        if self.accelerators is None:
            return Accelerator()
        return self.accelerators.get(code)

    @property
    def sums_anywhere(self) -> bool:
        """Whether every site has an unlimited accelerator, so that trees need no detours."""
        return self.accelerators is None
