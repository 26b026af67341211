"""The program as it runs: real sockets on the loopback interface."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from testbed.accelerator.build import RECIPE
from testbed.accelerator.config import Address, TreeConfig
from testbed.accelerator.process import AcceleratorProcess, Limits, Place
from testbed.emulation.accelerators import Accelerators
from testbed.native import client as client_of_the_control_socket
from topologies.errors import MachineError, RunError, UserError
from workloads.building import SANITIZED
from workloads.innetwork.protocol import Areas, Element, Flag, Packet, PacketType, decode, encode

KEY, JOB = 99, 12
ANSWER_LIMIT_S = 10.0
places = itertools.count()


@pytest.fixture(scope="session")
def sanitized_program(native_folder: Path) -> Path:
    return RECIPE.varied(native_folder / "accelerator", RECIPE.units, SANITIZED).build()


def unused_address() -> Address:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return Address(*probe.getsockname())


@dataclass
class Bench:
    """An accelerator, two children and a receiver."""

    process: AcceleratorProcess
    children: list[socket.socket]
    receiver: socket.socket
    config: TreeConfig

    def send(self, child: int, data: bytes) -> None:
        self.children[child].sendto(data, self.process.place.address)

    def contribute(self, child: int, sequence: int, *numbers: int, number: int = 0) -> None:
        areas = Areas(Element.INT32, b"", struct.pack(f"<{len(numbers)}i", *numbers))
        packet = Packet(
            PacketType.DATA, JOB, 1, sequence, child=child, leaves=1, number=number or sequence
        )
        self.send(child, encode(areas.put_into(packet), KEY))

    def result(self) -> tuple[Packet, tuple[int, ...]]:
        packet = decode(self.receiver.recv(10_000), KEY)
        return packet, struct.unpack(f"<{len(packet.sum_area) // 4}i", packet.sum_area)

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + ANSWER_LIMIT_S
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.005)


def udp_socket(stack: ExitStack) -> socket.socket:
    made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    made.bind(("127.0.0.1", 0))
    made.settimeout(ANSWER_LIMIT_S)
    return made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def bench_of(stack: ExitStack, folder: Path, program: Path, limits: Limits | None = None) -> Bench:
    children = [udp_socket(stack) for _ in range(2)]
    receiver = udp_socket(stack)
    place = Place(folder, f"a{next(places)}", unused_address())
    process = AcceleratorProcess.start(place, limits, program)
    stack.callback(process.close)
    config = TreeConfig(
        JOB,
        1,
        KEY,
        window=8,
        leaves=2,
        children=tuple(Address(*it.getsockname()) for it in children),
        members=tuple(Address(*it.getsockname()) for it in children),
        results=(Address(*receiver.getsockname()),),
    )
    process.open(config)
    return Bench(process, children, receiver, config)


@pytest.fixture
def bench(stack: ExitStack, tmp_path: Path, sanitized_program: Path) -> Bench:
    return bench_of(stack, tmp_path, sanitized_program)


def test_two_children_become_one_sum(bench: Bench) -> None:
    bench.contribute(0, 0, 1, -2, 2**31 - 1)
    bench.contribute(1, 0, 10, -20, 1)
    packet, numbers = bench.result()
    assert (packet.type, packet.sequence, packet.leaves) == (PacketType.RESULT, 0, 2)
    assert numbers == (11, -22, -(2**31))


def test_a_member_that_missed_a_result_is_answered_itself(bench: Bench) -> None:
    bench.contribute(0, 3, 5)
    bench.contribute(1, 3, 6)
    bench.result()
    ask = Packet(PacketType.ASK, JOB, 1, 3, child=1, member=1)
    bench.send(1, encode(ask, KEY))
    answer = decode(bench.children[1].recv(10_000), KEY)
    assert (answer.type, answer.sequence) == (PacketType.RESULT, 3)
    assert answer.sum_area == struct.pack("<i", 11)


def test_what_is_not_for_it_is_counted_by_kind(bench: Bench) -> None:
    good = encode(Packet(PacketType.DATA, JOB, 1, 0, child=0, leaves=1), KEY)
    bench.send(0, b"noise")
    bench.send(0, good + bytes(20_000))
    bench.send(0, encode(Packet(PacketType.DATA, JOB + 1, 1, 0), KEY))
    bench.send(1, good)
    bench.send(0, good[:-1] + bytes([good[-1] ^ 1]))
    bench.send(0, good)
    bench.send(0, good)
    bench.until(lambda: bench.process.counters().trees[JOB, 1].duplicates == 1)
    counters = bench.process.counters()
    tree = counters.trees[JOB, 1]
    assert (counters.process.malformed, counters.process.unknown) == (2, 1)
    assert (tree.packets, tree.foreign, tree.corrupt, tree.contributions) == (4, 1, 1, 1)


@pytest.mark.parametrize(("tos", "congested"), [(2, False), (3, True)])
def test_a_mark_of_congestion_comes_out_with_the_sum(
    bench: Bench, tos: int, congested: bool
) -> None:
    bench.children[1].setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    bench.contribute(0, 0, 1)
    bench.contribute(1, 0, 2)
    assert bool(bench.result()[0].flags & Flag.CONGESTED) == congested


def test_a_closed_tree_is_unknown(bench: Bench) -> None:
    bench.process.close_tree(JOB, 1)
    bench.contribute(0, 0, 1)
    bench.until(lambda: bench.process.counters().process.unknown == 1)
    with pytest.raises(UserError, match="no such tree is open"):
        bench.process.close_tree(JOB, 1)


def test_after_a_restart_it_sums_from_nothing_as_the_next_incarnation(bench: Bench) -> None:
    bench.contribute(0, 0, 1)
    bench.until(lambda: bench.process.counters().trees[JOB, 1].contributions == 1)
    bench.process.restart()
    bench.contribute(1, 0, 2)
    ask = Packet(PacketType.ASK, JOB, 1, 0, child=1, member=1)
    bench.send(1, encode(ask, KEY))
    resend = decode(bench.children[0].recv(10_000), KEY)
    assert (resend.type, resend.sequence, resend.incarnation) == (PacketType.RESEND, 0, 2)
    bench.contribute(0, 0, 1)
    assert bench.result()[1] == (3,)


def test_an_end_that_nobody_asked_for_is_told(bench: Bench) -> None:
    assert bench.process.failure() is None
    os.kill(bench.process.process_id, signal.SIGKILL)
    bench.until(lambda: bench.process.failure() is not None)
    assert "was ended by SIGKILL" in str(bench.process.failure())
    with pytest.raises(RunError, match=r"^the accelerator of a\d+ was ended by SIGKILL"):
        bench.process.counters()


@pytest.mark.parametrize(
    ("limits", "refusal"),
    [
        (Limits(fan_in=1), "more children than this accelerator can sum"),
        (Limits(slots=7), "fewer slots are free than the window has"),
    ],
)
def test_a_tree_beyond_its_limits_is_refused(
    stack: ExitStack, tmp_path: Path, sanitized_program: Path, limits: Limits, refusal: str
) -> None:
    with pytest.raises(UserError, match=refusal):
        bench_of(stack, tmp_path, sanitized_program, limits)


def test_slots_are_shared_by_trees_and_given_back(
    stack: ExitStack, tmp_path: Path, sanitized_program: Path
) -> None:
    bench = bench_of(stack, tmp_path, sanitized_program, Limits(slots=10))
    with pytest.raises(UserError, match="fewer slots"):
        bench.process.open(replace(bench.config, tree=2))
    bench.process.open(bench.config)
    bench.process.close_tree(JOB, 1)
    bench.process.open(replace(bench.config, tree=2))


def test_injected_loss_is_the_same_for_the_same_seed(bench: Bench) -> None:
    def lost(seed: int) -> set[int]:
        bench.process.open(replace(bench.config, window=64, children=bench.config.children[:1]))
        bench.process.inject("out", loss_pct=30, seed=seed)
        for sequence in range(40):
            bench.contribute(0, sequence, 7)
        bench.until(lambda: bench.process.counters().trees[JOB, 1].sums == 40)
        bench.process.inject("out")
        bench.contribute(0, 40, 7)
        arrived = set()
        while (sequence := bench.result()[0].sequence) != 40:
            arrived.add(sequence)
        return set(range(40)) - arrived

    first = lost(5)
    assert 3 <= len(first) <= 25
    assert lost(5) == first
    assert lost(6) != first


def test_injected_doubles_change_no_sum(bench: Bench) -> None:
    bench.process.inject("in", duplicate_pct=100)
    bench.contribute(0, 0, 4)
    bench.contribute(1, 0, 5)
    assert bench.result()[1] == (9,)
    counters = bench.process.counters()
    assert (counters.process.in_duplicated, counters.trees[JOB, 1].duplicates) == (2, 2)


def test_a_rate_limit_makes_packets_wait(
    stack: ExitStack, tmp_path: Path, sanitized_program: Path
) -> None:
    bench = bench_of(stack, tmp_path, sanitized_program, Limits(rate_mbps=1))
    for sequence in range(8):
        for child in range(2):
            bench.contribute(child, sequence, *range(250))
    for _ in range(8):
        bench.result()
    bits = 16 * 8 * (64 + 1000 + 28)
    throttled_us = bench.process.counters().process.throttled_us
    assert throttled_us >= 0.4 * bits  # at 1 bit/us; what comes in at once is waited for later


@pytest.mark.root
def test_what_a_slow_accelerator_has_no_room_for_is_counted(
    stack: ExitStack, tmp_path: Path, sanitized_program: Path
) -> None:
    bench = bench_of(stack, tmp_path, sanitized_program, Limits(rate_mbps=50))
    sent = 0
    while bench.process.counters().process.overflow == 0:
        for _ in range(200):
            bench.contribute(0, 0, *range(2000))
        sent += 200
        assert sent < 20_000
    counters = bench.process.counters()
    assert counters.trees[JOB, 1].packets + counters.process.overflow <= sent


def test_an_address_in_use_is_told(bench: Bench, tmp_path: Path, sanitized_program: Path) -> None:
    place = Place(tmp_path, "second", bench.process.place.address)
    with pytest.raises(MachineError, match="the accelerator does not start"):
        AcceleratorProcess.start(place, program=sanitized_program)
    assert "Address already in use" in place.log.read_text()


def test_it_ends_without_a_complaint_of_the_sanitizers(bench: Bench) -> None:
    bench.contribute(0, 0, 1)
    bench.process.close()
    assert bench.process.place.log.read_text() == ""
    assert not bench.process.place.socket.exists()


def test_an_accelerator_that_ends_by_itself_is_started_anew_in_its_trees(bench: Bench) -> None:
    together = Accelerators({"NYC": bench.process})
    assert together.revive() == []
    os.kill(bench.process.process_id, signal.SIGKILL)
    bench.until(lambda: together.failure() is not None)
    (told,) = together.revive()
    assert "was ended by SIGKILL; it was started anew at " in told
    assert together.failure() is None and together.mishaps == [told]
    for child in range(2):
        bench.contribute(child, 7, 20 + child)
    packet, sums = bench.result()
    assert (sums, packet.incarnation) == ((41,), 2)


def test_one_that_hangs_is_started_anew_when_it_is_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Accelerators({"NYC": bench.process})
    monkeypatch.setattr(client_of_the_control_socket, "ANSWER_LIMIT_S", 0.5)
    together.restart("NYC")  # with the shorter limit
    os.kill(bench.process.process_id, signal.SIGSTOP)
    assert together.counters()["NYC"].trees[JOB, 1].contributions == 0
    assert "does not answer; it was started anew at " in together.mishaps[0]


def test_one_that_ends_again_and_again_is_left_as_it_is(bench: Bench) -> None:
    together = Accelerators({"NYC": bench.process}, most_revivals=2)
    for revived in (1, 1, 0):
        os.kill(bench.process.process_id, signal.SIGKILL)
        bench.until(lambda: together.failure() is not None)
        assert len(together.revive()) == revived
    assert together.failure() is not None


def test_one_that_was_killed_on_purpose_stays_dead(bench: Bench) -> None:
    together = Accelerators({"NYC": bench.process})
    together.kill("NYC")
    assert together.revive() == [] and together.failure() is None and together.mishaps == []
