"""A network in memory that loses, doubles, delays and reorders, with accelerators and members."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from testbed.accelerator.config import Address, TreeConfig
from testbed.accelerator.placement import Job, Shape, tree_configs
from testbed.accelerator.twin import Accelerator, Sent
from tests.accelerator.members import Branch, Member
from workloads.innetwork.protocol import NO_CHILD, Areas

GROUP = Address("239.0.0.1", 9000)
JOB, KEY = 77, 0xFEEDFACECAFEBEEF
TICK_US = 3000
EVENTS_MAX = 400_000


@dataclass(frozen=True)
class Weather:
    """What happens to packets on every hop."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay_us: int = 1000
    jitter_us: int = 0


def address_of(name: str) -> Address:
    kind, number = name[0], int(name[1:])
    return Address(f"10.{1 if kind == 'a' else 0}.0.{number + 1}", 7000)


@dataclass(frozen=True)
class Tree:
    """Accelerators `a0`, `a1`, ... (a parent has the smaller number) and members `m0`, `m1`, ..."""

    parents: tuple[int, ...]  # of a1, a2, ...
    homes: tuple[int, ...]  # accelerator of m0, m1, ...

    def sums(self, contributing: Sequence[int]) -> dict[str, tuple[str, ...]]:
        """Children of each accelerator, without branches that nobody contributes to."""
        children: dict[str, tuple[str, ...]] = {}
        for number in reversed(range(len(self.parents) + 1)):
            members = [f"m{it}" for it in contributing if self.homes[it] == number]
            below = [
                f"a{child}"
                for child, parent in enumerate(self.parents, start=1)
                if parent == number and f"a{child}" in children
            ]
            if members or below:
                children[f"a{number}"] = (*members, *below)
        return children


@dataclass
class World:
    """Everything that is simulated; time in microseconds."""

    weather: Weather
    random: Random
    configs: dict[Address, list[TreeConfig]] = field(default_factory=dict)
    accelerators: dict[Address, Accelerator] = field(default_factory=dict)
    members: dict[Address, Member] = field(default_factory=dict)
    now_us: int = 0
    events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    count: int = 0

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.events, (time_us, self.count, action))

    def send(self, source: Address, out: Sequence[Sent]) -> None:
        for sent in out:
            targets = list(self.members) if sent.destination == GROUP else [sent.destination]
            for target in targets:
                self._carry(source, target, sent.data)

    def _carry(self, source: Address, target: Address, data: bytes) -> None:
        copies = 2 if self.random.random() < self.weather.duplicate else 1
        for _ in range(copies):
            if self.random.random() < self.weather.loss:
                continue
            delay = self.weather.delay_us + self.random.randint(0, self.weather.jitter_us)
            self.at(self.now_us + delay, lambda: self._arrive(source, target, data))

    def _arrive(self, source: Address, target: Address, data: bytes) -> None:
        if target in self.members:
            self.send(target, self.members[target].handle(data, self.now_us))
        else:
            self.send(target, self.accelerators[target].handle(data, source, self.now_us))

    def restart(self, address: Address) -> None:
        """Forget everything an accelerator knew, and tell it of its trees again."""
        fresh = Accelerator(self.accelerators[address].incarnation + 1)
        for config in self.configs[address]:
            fresh.open(config)
        self.accelerators[address] = fresh

    def _tick(self, address: Address) -> None:
        self.send(address, self.members[address].go_on(self.now_us))
        self.at(self.now_us + TICK_US, lambda: self._tick(address))

    def run(self) -> None:
        """Run until all members have all results."""
        for address in self.members:
            self.at(self.random.randint(0, TICK_US), partial(self._tick, address))
        while not all(member.finished for member in self.members.values()):
            assert self.count < EVENTS_MAX, "it does not come to an end"
            self.now_us, _, action = heapq.heappop(self.events)
            action()

    def settle(self, time_us: int) -> None:
        """Run on for a time."""
        end_us = self.now_us + time_us
        while self.events[0][0] < end_us:
            self.now_us, _, action = heapq.heappop(self.events)
            action()


def innetwork(
    tree: Tree, areas: Mapping[int, Sequence[Areas]], window: int, weather: Weather, seed: int
) -> World:
    """One tree for all, results by multicast."""
    world = World(weather, Random(seed))
    shape = _open(world, tree, 0, list(areas), window, results=(GROUP,))
    for index, mine in areas.items():
        branch = _branch(shape, 0, f"m{index}", receives=True)
        _join(world, index, [branch], mine, window)
    return world


def aggregation(
    tree: Tree, areas: Mapping[int, Sequence[Areas]], window: int, weather: Weather, seed: int
) -> World:
    """A tree for each receiver, which itself contributes nothing to it; no multicast."""
    world = World(weather, Random(seed))
    shapes = {}
    for receiver in areas:
        others = [index for index in areas if index != receiver]
        results = (address_of(f"m{receiver}"),)
        notices = tuple(address_of(f"m{index}") for index in others)
        shapes[receiver] = _open(world, tree, receiver, others, window, results, notices)
    for index, mine in areas.items():
        branches = [
            _branch(shape, receiver, f"m{index}", receives=receiver == index)
            for receiver, shape in shapes.items()
        ]
        _join(world, index, branches, mine, window)
    return world


def _open(
    world: World,
    tree: Tree,
    number: int,
    contributing: Sequence[int],
    window: int,
    results: tuple[Address, ...],
    notices: tuple[Address, ...] = (),
) -> Shape:
    sums = tree.sums(contributing)
    names = [f"m{index}" for index in range(len(tree.homes))]
    addresses = {name: address_of(name) for name in [*sums, *names]}
    shape = Shape(sums, names, addresses, results, notices)
    job = Job(JOB, number, KEY, window, notice_every=4, hold_us=500)
    for name, config in tree_configs(job, shape).items():
        accelerator = world.accelerators.setdefault(address_of(name), Accelerator())
        accelerator.open(config)
        world.configs.setdefault(address_of(name), []).append(config)
    return shape


def _branch(shape: Shape, tree: int, name: str, receives: bool) -> Branch:
    parent = shape.parent(name)
    if parent is None:
        return Branch(tree, shape.addresses[shape.root()], NO_CHILD, receives)
    child = shape.sums[parent].index(name)
    return Branch(tree, shape.addresses[parent], child, receives)


def _join(
    world: World, index: int, branches: Sequence[Branch], areas: Sequence[Areas], window: int
) -> None:
    longest_us = 2 * 8 * (world.weather.delay_us + world.weather.jitter_us)
    world.members[address_of(f"m{index}")] = Member(
        index, JOB, KEY, window, branches, areas, timeout_us=longest_us
    )
