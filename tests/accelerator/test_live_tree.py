"""A tree of running accelerators, members over real sockets, and loss on every hop."""

from __future__ import annotations

import selectors
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.accelerator.build import ensure_built
from testbed.accelerator.config import Address
from testbed.accelerator.placement import Job, Shape, tree_configs
from testbed.accelerator.process import AcceleratorProcess, Place
from testbed.accelerator.twin import Sent
from testbed.links.namespace import NetworkNamespace
from tests.accelerator.members import Branch, Member, expected
from tests.accelerator.test_properties import contributions
from tests.ports import free_port
from workloads.innetwork.protocol import Areas, Element, Packet, PacketType, decode, encode

SUMS = {"root": ("m0", "west", "east"), "west": ("m1", "m2"), "east": ("m3", "far"), "far": ("m4",)}
MEMBERS = ("m0", "m1", "m2", "m3", "m4")
KEY, JOB, SEQUENCES, WINDOW = 31, 8, 60, 8
TICK_S, LIMIT_S = 0.005, 60.0


class Clique:
    """Members on sockets of the loopback interface, and the accelerators of `SUMS`."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.areas = contributions(len(MEMBERS), SEQUENCES, 7)
        self.sockets = {name: self._socket(stack) for name in MEMBERS}
        addresses = {name: Address(*it.getsockname()) for name, it in self.sockets.items()}
        addresses |= {name: Address("127.0.0.1", free_port(socket.SOCK_DGRAM)) for name in SUMS}
        results = tuple(addresses[name] for name in MEMBERS)
        self.shape = Shape(SUMS, MEMBERS, addresses, results)
        self.accelerators = {
            name: AcceleratorProcess.start(Place(folder, name, addresses[name])) for name in SUMS
        }
        for name, config in tree_configs(
            Job(JOB, 0, KEY, WINDOW, hold_us=1000), self.shape
        ).items():
            stack.callback(self.accelerators[name].close)
            self.accelerators[name].open(config)
        self.members = {name: self._member(index) for index, name in enumerate(MEMBERS)}

    def _socket(self, stack: ExitStack) -> socket.socket:
        made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.bind(("127.0.0.1", 0))
        return made

    def _member(self, index: int) -> Member:
        name = MEMBERS[index]
        parent = self.shape.parent(name)
        assert parent
        branch = Branch(0, self.shape.addresses[parent], SUMS[parent].index(name), receives=True)
        return Member(index, JOB, KEY, WINDOW, [branch], self.areas[index], timeout_us=20_000)

    def _send(self, name: str, out: Sequence[Sent]) -> None:
        for sent in out:
            self.sockets[name].sendto(sent.data, sent.destination)

    def run(self, at_half: Callable[[], None] = lambda: None) -> None:
        """Until all members have all results; `at_half` is called once on the way."""
        end, halfway = time.monotonic() + LIMIT_S, False
        with selectors.DefaultSelector() as selector:
            for name, it in self.sockets.items():
                selector.register(it, selectors.EVENT_READ, name)
            while not all(member.finished for member in self.members.values()):
                assert time.monotonic() < end, "it does not come to an end"
                if not halfway and len(self.members["m4"].results) >= SEQUENCES // 2:
                    halfway = True
                    at_half()
                self._turn(selector)
        assert halfway

    def _turn(self, selector: selectors.BaseSelector) -> None:
        for key, _ in selector.select(TICK_S):
            data = self.sockets[key.data].recv(10_000)
            now_us = time.monotonic_ns() // 1000
            self._send(key.data, self.members[key.data].handle(data, now_us))
        for name, member in self.members.items():
            self._send(name, member.go_on(time.monotonic_ns() // 1000))

    def assert_right(self) -> None:
        for member in self.members.values():
            for sequence, (leaves, got) in member.results.items():
                assert leaves == len(MEMBERS)
                assert got == expected(self.areas, sequence)


@pytest.fixture
def clique(tmp_path: Path) -> Iterator[Clique]:
    with ExitStack() as stack:
        yield Clique(stack, tmp_path)


def test_sums_are_right_with_loss_and_doubles_on_every_hop(clique: Clique) -> None:
    for seed, accelerator in enumerate(clique.accelerators.values()):
        for way in ("in", "out"):
            accelerator.inject(way, loss_pct=5, duplicate_pct=10, seed=seed)
    clique.run()
    clique.assert_right()
    dropped = [it.counters().process.in_dropped for it in clique.accelerators.values()]
    assert min(dropped) > 0


@pytest.mark.parametrize("victim", ["root", "east"])
def test_a_round_outlives_an_accelerator_that_is_killed(clique: Clique, victim: str) -> None:
    for seed, accelerator in enumerate(clique.accelerators.values()):
        accelerator.inject("in", loss_pct=5, seed=seed)
    clique.run(at_half=clique.accelerators[victim].restart)
    clique.assert_right()
    assert clique.accelerators[victim].incarnation == 2


@pytest.mark.root
def test_the_root_sends_one_packet_to_the_group_by_its_interface(tmp_path: Path) -> None:
    group = Address("239.9.9.9", 7600)
    with ExitStack() as stack:
        here, there = NetworkNamespace(), NetworkNamespace()
        stack.callback(here.close)
        stack.callback(there.close)
        veth(here, there)
        with there.entered():
            listeners = [listener(stack, group) for _ in range(2)]
            child = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            child.bind(("10.7.0.2", 7500))
        place = Place(tmp_path, "root", Address("10.7.0.1", 7000), interface="acc0")
        with here.entered():
            process = AcceleratorProcess.start(place, program=ensure_built())
        stack.callback(process.close)
        shape = Shape(
            {"a": ("m",)}, ["m"], {"a": place.address, "m": Address("10.7.0.2", 7500)}, (group,)
        )
        process.open(tree_configs(Job(JOB, 0, KEY, WINDOW), shape)["a"])
        areas = Areas(Element.INT32, b"", struct.pack("<i", 5))
        data = Packet(PacketType.DATA, JOB, 0, 0, child=0, leaves=1)
        child.sendto(encode(areas.put_into(data), KEY), place.address)
        for each in listeners:
            assert decode(each.recv(10_000), KEY).sum_area == struct.pack("<i", 5)
        assert process.counters().trees[JOB, 0].sent == 1


def veth(here: NetworkNamespace, there: NetworkNamespace) -> None:
    commands = [
        (here, f"ip link add acc0 up type veth peer name wan0 netns {there.path}"),
        (here, "ip address add 10.7.0.1/24 dev acc0"),
        (there, "ip address add 10.7.0.2/24 dev wan0"),
        (there, "ip link set wan0 up"),
    ]
    for namespace, command in commands:
        with namespace.entered():
            subprocess.run(command.split(), check=True)


def listener(stack: ExitStack, group: Address) -> socket.socket:
    made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((group.ip, group.port))
    member = socket.inet_aton(group.ip) + socket.inet_aton("10.7.0.2")
    made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    made.settimeout(10)
    return made
