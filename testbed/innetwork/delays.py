"""How long a tree's ways are without any queue: up to its root, and down from it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from topologies.model import Direction, DirectionSpec, Topology

Hops = Iterable[tuple[str, str]]


class Delays(Protocol):
    """Directions with their delays: a topology, or `FrameTimes` on one."""

    def directions(self) -> Mapping[Direction, DirectionSpec]:
        """Return every direction's delay, among others."""


@dataclass(frozen=True)
class FrameTimes:
    """Instead of its delay, what a frame takes on each direction: it is sent whole over each."""

    topology: Topology
    frame_bytes: int

    def directions(self) -> Mapping[Direction, DirectionSpec]:
        """Return every direction with that time as its delay."""
        return {
            way: replace(spec, one_way_delay_ms=8 * self.frame_bytes / (spec.rate_mbps * 1e3))
            for way, spec in self.topology.directions().items()
        }


def down_ms(topology: Delays, root: str, hops: Hops) -> dict[str, float]:
    """Return the delay from the root's switch to the switch of every site of a tree."""
    return _from_root(topology, root, hops, downwards=True)


def up_ms(topology: Delays, root: str, hops: Hops) -> dict[str, float]:
    """Return the delay from the switch of every site of a tree to the root's switch."""
    return _from_root(topology, root, hops, downwards=False)


def to_island_ms(topology: Delays, site: str) -> float:
    """Return the delay of an access port towards the island."""
    return topology.directions()[Direction.down(site)].one_way_delay_ms


def from_island_ms(topology: Delays, site: str) -> float:
    """Return the delay of an access port from the island."""
    return topology.directions()[Direction.up(site)].one_way_delay_ms


def _from_root(topology: Delays, root: str, hops: Hops, downwards: bool) -> dict[str, float]:
    children = _children(hops)
    specs = topology.directions()
    delay_ms, order = {root: 0.0}, [root]
    for parent in order:
        for child in children.get(parent, ()):
            way = Direction(parent, child) if downwards else Direction(child, parent)
            delay_ms[child] = delay_ms[parent] + specs[way].one_way_delay_ms
            order.append(child)
    return delay_ms


def _children(hops: Hops) -> Mapping[str, list[str]]:
    children: dict[str, list[str]] = {}
    for parent, child in hops:
        children.setdefault(parent, []).append(child)
    return children
