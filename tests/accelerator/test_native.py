"""The program does what its twin does, packet by packet, and nothing breaks it."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.accelerator.config import Address, TreeConfig
from testbed.accelerator.twin import Accelerator
from tests.accelerator.driver import Driver
from tests.accelerator.simulation import Tree, Weather, innetwork
from tests.accelerator.test_properties import assert_all_right, contributions
from workloads.innetwork.protocol import (
    ALL_FLAGS,
    NO_CHILD,
    Element,
    Flag,
    Packet,
    PacketType,
    check,
    encode,
)

PACKETS_A_LIFE = 250
CASES_A_SEED = 20_000
KEY = 4711
CHILDREN = tuple(Address(f"10.0.0.{number}", 7000 + number) for number in range(1, 4))
MEMBERS = tuple(Address(f"10.0.1.{number}", 8000) for number in range(1, 4))
ROOT = TreeConfig(
    5, 1, KEY, 3, 3, CHILDREN, MEMBERS, None, 0, (Address("239.1.1.1", 9000),), MEMBERS[:2], 4, 2000
)
INNER = TreeConfig(5, 2, KEY, 2, 3, CHILDREN, up=Address("10.2.0.1", 7000), child=9, hold_us=2000)


class Life:
    """Random packets as they might come: mostly right, in a stream that moves on."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_us = self.random.choice([0, 2**32 - 50_000])
        self.number = self.random.choice([0, 2**32 - 40])
        self.newest = 0

    def packet(self) -> tuple[bytes, Address, int, bool]:
        random = self.random
        self.now_us += random.choice(
            [1, 50, 900, 3000, 11_000_000 if random.random() < 0.02 else 7]
        )
        self.newest += random.random() < 0.12
        tree = random.choice([1, 1, 2, 2, 2, 3 if random.random() < 0.1 else 1])
        child = random.randrange(3)
        packet = self._fields(tree, child)
        source = CHILDREN[child]
        if random.random() < 0.1:
            packet, source = replace(packet, child=NO_CHILD), random.choice(MEMBERS)
        if random.random() < 0.05:
            source = random.choice([*CHILDREN, *MEMBERS, Address("10.9.9.9", 7000)])
        data = encode(packet, KEY if random.random() < 0.97 else KEY + 1)
        return self._damaged(data), source, self.now_us, random.random() < 0.1

    def _fields(self, tree: int, child: int) -> Packet:
        random = self.random
        kind = random.choice([PacketType.DATA] * 8 + list(PacketType))
        self.number += random.choice(
            [1, 1, 1, 1, 2, 5, -2, 70, 2000 if random.random() < 0.1 else 1]
        )
        packet = Packet(
            kind,
            5,
            tree,
            max(0, self.newest + random.choice([0, 0, 0, 1, -1, -2, -3, -6, 6])),
            child=child,
            member=random.choice([0, 1, 2, 2, 3]),
            number=self.number % 2**32 if random.random() < 0.8 else random.randrange(12),
            flags=Flag(random.choice([0, 0, 0, 2, 4, 8, random.randrange(ALL_FLAGS + 1)])),
            leaves=random.choice([1, 1, 2, 65535]),
            sent_us=(self.now_us - random.randrange(5000)) % 2**32,
            delay_us=random.choice([0, 0, 700, 2**32 - 1]),
        )
        return self._with_areas(packet) if kind == PacketType.DATA else packet

    def _with_areas(self, packet: Packet) -> Packet:
        usual = self.random.random() < 0.95
        element = Element.INT64 if packet.sequence % 2 and usual else Element.INT32
        max_bytes = 5 if usual else self.random.randrange(20)
        sums = self.random.randbytes(24 if usual else 8 * self.random.randrange(1, 9))
        return replace(
            packet, element=element, max_area=self.random.randbytes(max_bytes), sum_area=sums
        )

    def _damaged(self, data: bytes) -> bytes:
        chance = self.random.random()
        if chance > 0.04:
            return data
        if chance > 0.02:
            return data[: self.random.randrange(len(data))]
        at = self.random.randrange(len(data))
        return data[:at] + bytes([data[at] ^ 1 << self.random.randrange(8)]) + data[at + 1 :]


@pytest.mark.parametrize("seed", range(12))
def test_the_program_does_what_its_twin_does(driver: Driver, seed: int) -> None:
    driver.start(incarnation=3)
    twin, life = Accelerator(incarnation=3), Life(seed)
    for config in (ROOT, INNER):
        driver.open(config)
        twin.open(config)
    for _ in range(PACKETS_A_LIFE):
        arrived = life.packet()
        assert driver.handle(*arrived) == twin.handle(*arrived)
    assert driver.counters() == twin.counters()


@pytest.mark.parametrize("seed", range(4))
def test_a_tree_of_programs_sums_right_in_bad_weather(driver_program: Path, seed: int) -> None:
    tree = Tree(parents=(0, 0, 2), homes=(0, 1, 2, 3, 3))
    areas = contributions(5, 10, seed)
    weather = Weather(loss=0.1, duplicate=0.2, jitter_us=5000)
    world = innetwork(tree, areas, 3, weather, seed)
    drivers = {address: Driver(driver_program) for address in world.accelerators}
    for address, driver in drivers.items():
        driver.start()
        for config in world.configs[address]:
            driver.open(config)
    world.accelerators = drivers  # type: ignore[assignment]
    world.run()
    assert_all_right(world, areas)
    assert [driver.close() for driver in drivers.values()] == [0] * 4


def test_random_lives_meet_every_case_that_is_counted() -> None:
    met: Counter[str] = Counter()
    for seed in range(12):
        twin, life = Accelerator(), Life(seed)
        twin.open(ROOT)
        twin.open(INNER)
        for _ in range(PACKETS_A_LIFE):
            twin.handle(*life.packet())
        counters = twin.counters()
        for count in counters.trees.values():
            met.update(vars(count))
        met.update(malformed=counters.process.malformed, unknown=counters.process.unknown)
    assert [name for name, number in met.items() if not number] == []


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=64, max_size=300), st.integers(0, 2**64 - 1))
def test_both_compute_the_same_check(driver_program: Path, data: bytes, key: int) -> None:
    driver = Driver(driver_program)
    assert driver.ask(f"check {key} {data.hex()}") == [str(check(data, key))]
    assert driver.close() == 0


@pytest.mark.parametrize("seed", range(1, 4))
def test_hostile_packets_neither_break_it_nor_change_a_sum(fuzz_program: Path, seed: int) -> None:
    done = subprocess.run(
        [fuzz_program, str(CASES_A_SEED), str(seed)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) >= CASES_A_SEED
