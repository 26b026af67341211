"""The member's state machine: in a network in memory that does its worst, and beside the C one."""

from __future__ import annotations

import heapq
import random
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.accelerator.config import Address
from testbed.accelerator.placement import Job, Shape, tree_configs
from testbed.accelerator.twin import Accelerator
from tests.workloads.loopback_group import (
    Loopback,
    group_of,
    open_accelerators,
    two_levels,
)
from workloads.collectives.agreement import Statement
from workloads.collectives.summing import Areas, chunk_table, guard_of
from workloads.innetwork.endpoint import Member, Status
from workloads.innetwork.job import GroupJob
from workloads.innetwork.protocol import Areas as PacketAreas
from workloads.innetwork.protocol import Element
from workloads.innetwork.twin import MemberTwin, TwinChunk

KINDS = ["multicast", "aggregation", "innetwork"]
MEMBERS = 4
WINDOW = 5
CHUNKS = 17
LIMIT_US = 120_000_000
GUARD = guard_of(Statement("sum of int32[17, 6]")).tobytes()
OTHER_GUARD = guard_of(Statement("sum of int32[6, 17]")).tobytes()


@dataclass
class BadNetwork:
    """Carries packets between members and accelerators, loses, doubles and delays them."""

    random: random.Random
    loss: float
    members: dict[str, MemberTwin]
    accelerators: dict[str, Accelerator]
    groups: dict[str, list[str]]
    now_us: int = 0
    _under_way: list[tuple[int, int, str, bytes, Address]] = field(default_factory=list)
    _count: int = 0

    def send(self, source: Address, to: Address, data: bytes) -> None:
        for address in self.groups.get(to.ip, [to.ip]):
            for _ in range(2 if self.random.random() < self.loss else 1):
                if self.random.random() >= self.loss:
                    self._count += 1
                    at = self.now_us + self.random.randrange(1, 3000)
                    heapq.heappush(self._under_way, (at, self._count, address, data, source))

    def step(self) -> None:
        """Let a millisecond pass."""
        self.now_us += 1000
        while self._under_way and self._under_way[0][0] <= self.now_us:
            _, _, address, data, source = heapq.heappop(self._under_way)
            self._deliver(address, data, source)
        for address, member in self.members.items():
            for one in member.tick(self.now_us):
                self.send(Address(address, 7001), Address(one.to.address, one.to.port), one.data)

    def _deliver(self, address: str, data: bytes, source: Address) -> None:
        if address in self.members:
            for one in self.members[address].handle(data, source.ip, self.now_us):
                to = Address(one.to.address, one.to.port)
                self.send(Address(address, 7001), to, one.data)
        elif address in self.accelerators:
            for sent in self.accelerators[address].handle(data, source, self.now_us):
                self.send(Address(address, 7000), sent.destination, sent.data)


def open_in_memory(lo: Loopback, groups: Sequence[GroupJob], box: Accelerator, name: str) -> None:
    """Tell an accelerator of its place in all trees."""
    for tree in groups[0].trees:
        if groups[0].kind == "multicast" or name not in two_levels(tree.leaves):
            continue
        down = tree.group or lo.member(tree.receiver or 0)
        shape = Shape(
            sums=two_levels(tree.leaves),
            members=[f"member{i}" for i in range(MEMBERS)],
            addresses=lo.addresses(),
            results=(Address(down.address, down.port),),
        )
        job = Job(groups[0].job, tree.number, groups[0].key, WINDOW)
        box.open(tree_configs(job, shape)[name])


def bad_network(kind: str, seed: int, loss: float) -> tuple[BadNetwork, list[MemberTwin]]:
    lo = Loopback(Path(), MEMBERS)
    groups = [group_of(lo, kind, i, 1000.0, WINDOW) for i in range(MEMBERS)]
    twins = [MemberTwin(group, i) for i, group in enumerate(groups)]
    boxes = {lo.accelerator(i).address: Accelerator() for i in range(2)}
    for number, box in enumerate(boxes.values()):
        open_in_memory(lo, groups, box, f"box{number}")
    everyone = [lo.member(i).address for i in range(MEMBERS)]
    listeners = {lo.group_address(0).address: everyone}
    if kind == "multicast":
        listeners = {
            lo.group_address(i).address: [one for one in everyone if one != everyone[i]]
            for i in range(MEMBERS)
        }
    members = dict(zip(everyone, twins, strict=True))
    return BadNetwork(random.Random(seed), loss, members, boxes, listeners), twins


def contributions(member: int, message: int) -> np.ndarray:
    generator = np.random.default_rng([member, message])
    return generator.integers(-(2**27), 2**27, (CHUNKS, 6), dtype=np.int32)


def chunks_of(rows: np.ndarray) -> list[TwinChunk]:
    guard = TwinChunk(PacketAreas(max_area=GUARD), is_guard=True)
    return [guard] + [
        TwinChunk(PacketAreas(Element.INT32, bytes([row[0] & 255]), row.tobytes())) for row in rows
    ]


def expected(kind: str, me: int, stream: int, message: int) -> np.ndarray:
    rows = [contributions(i, message) for i in range(MEMBERS)]
    others = [row for i, row in enumerate(rows) if i != me]
    if kind == "multicast":
        return others[stream]
    return np.sum(others if kind == "aggregation" else rows, axis=0, dtype=np.int32)


def sums_of(areas: list[PacketAreas]) -> np.ndarray:
    return np.array([np.frombuffer(one.sum_area, np.int32) for one in areas[1:]])


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32), loss=st.sampled_from([0.0, 0.02, 0.2]))
@settings(max_examples=12, deadline=None)
def test_results_are_right_whatever_the_network_does(kind: str, seed: int, loss: float) -> None:
    network, twins = bad_network(kind, seed, loss)
    for message in range(2):
        for me, twin in enumerate(twins):
            twin.begin(chunks_of(contributions(me, message)), network.now_us)
        while any(twin.status == Status.RUNNING for twin in twins):
            network.step()
            assert network.now_us < LIMIT_US, [twin.status for twin in twins]
        for me, twin in enumerate(twins):
            assert twin.status == Status.DONE
            for stream in range(len(twin.streams)):
                want = expected(kind, me, stream, message)
                assert (sums_of(twin.results(stream)) == want).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_guard_that_differs_is_seen_by_all(kind: str) -> None:
    network, twins = bad_network(kind, 1, 0.0)
    for me, twin in enumerate(twins):
        chunks = chunks_of(contributions(me, 0))
        if me == 2:
            chunks[0] = TwinChunk(PacketAreas(max_area=OTHER_GUARD), is_guard=True)
        twin.begin(chunks, 0)
    for _ in range(100):
        network.step()
    assert [twin.status for twin in twins] == [Status.DISAGREE] * MEMBERS


class TwinOnSockets(threading.Thread):
    """A Python member with sockets and a clock."""

    def __init__(self, lo: Loopback, group: GroupJob, me: int) -> None:
        super().__init__(daemon=True)
        self.twin = MemberTwin(group, me)
        self._stop_asked = threading.Event()
        here = group.members[me].place
        self._sockets = [socket.socket(type=socket.SOCK_DGRAM)]
        self._sockets[0].bind((here.address, here.port))
        self._sockets[0].setsockopt(
            socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(here.address)
        )
        for stream in self.twin.streams:
            if stream.group is not None:
                self._sockets.append(_joined(stream.group.address, stream.group.port, here.address))
        for one in self._sockets:
            one.setblocking(False)

    def run(self) -> None:
        while not self._stop_asked.is_set():
            sent = self.twin.tick(time.monotonic_ns() // 1000)
            for one in self._sockets:
                try:
                    data, (source, _) = one.recvfrom(9216)
                except BlockingIOError:
                    continue
                sent += self.twin.handle(data, source, time.monotonic_ns() // 1000)
            for packet in sent:
                self._sockets[0].sendto(packet.data, (packet.to.address, packet.to.port))
            if not sent:
                time.sleep(0.0005)

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()
        for one in self._sockets:
            one.close()


def _joined(group: str, port: int, here: str) -> socket.socket:
    one = socket.socket(type=socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((group, port))
    membership = socket.inet_aton(group) + socket.inet_aton(here)
    one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    return one


@pytest.mark.parametrize("kind", KINDS)
def test_the_endpoint_in_c_and_its_twin_sum_together(tmp_path: Path, kind: str) -> None:
    lo = Loopback(tmp_path, MEMBERS)
    groups = [group_of(lo, kind, i, 1000.0, WINDOW) for i in range(MEMBERS)]
    with ExitStack() as stack:
        if kind != "multicast":
            open_accelerators(lo, groups[0], stack)
            for box in lo.accelerators.values():
                box.inject("in", loss_pct=3, duplicate_pct=3, seed=1)
                box.inject("out", loss_pct=3, duplicate_pct=3, seed=2)
        native = [Member(groups[i], i, groups[i].trees) for i in (0, 1)]
        twins = [TwinOnSockets(lo, groups[i], i) for i in (2, 3)]
        for member in native:
            stack.callback(member.close)
        for twin in twins:
            twin.start()
            stack.callback(twin.stop)
        results = _sum_once(native, twins)
    for me, by_stream in enumerate(results):
        for stream, sums in enumerate(by_stream):
            assert (sums == expected(kind, me, stream, 0)).all(), (me, stream)


def _sum_once(native: list[Member], twins: list[TwinOnSockets]) -> list[list[np.ndarray]]:
    guard = np.frombuffer(GUARD, np.uint8)
    arrays = []
    for me, member in enumerate(native):
        rows = contributions(me, 0)
        sums = np.zeros((member.streams, *rows.shape), np.int32)
        maxima = np.array([[row[0] & 255] for row in rows], np.uint8)
        best = np.zeros((member.streams, 8 + maxima.size), np.uint8)
        guards = best[:, :8]
        areas = Areas(maxima, rows.reshape(-1), rows.shape[1])
        table = chunk_table(guard, guards, areas, sums[0].reshape(-1), best[0, 8:])
        # one stride serves the guards' results and the maxima
        member.begin(table, (guard, guards, areas, sums, best), guards.strides[0], rows.nbytes)
        arrays.append(sums)
    for me, twin in enumerate(twins, start=len(native)):
        twin.twin.begin(chunks_of(contributions(me, 0)), time.monotonic_ns() // 1000)
    for member in native:
        assert member.wait(30) == Status.DONE, member.counters()
    deadline = time.monotonic() + 30
    while any(one.twin.status == Status.RUNNING for one in twins) and time.monotonic() < deadline:
        time.sleep(0.01)
    outcome = [list(sums) for sums in arrays]
    for one in twins:
        assert one.twin.status == Status.DONE
        outcome.append([sums_of(one.twin.results(s)) for s in range(len(one.twin.streams))])
    return outcome
