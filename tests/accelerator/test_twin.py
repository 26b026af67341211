"""The accelerator's rules, one by one, as the tables of `docs/protocol.md` state them."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from testbed.accelerator.config import Address, TreeConfig, TreeCounters
from testbed.accelerator.twin import Accelerator, Arrivals, Sent
from workloads.innetwork.protocol import (
    NO_CHILD,
    Areas,
    Element,
    Flag,
    Packet,
    PacketError,
    PacketType,
    decode,
    encode,
    payload_bytes,
)

KEY, WINDOW, HOLD_US = 6, 4, 1000
A, B, UP, GROUP, OBSERVER = (Address(f"10.0.0.{number}", 7000) for number in (1, 2, 3, 4, 5))
MEMBERS = (A, B, OBSERVER)
ROOT = TreeConfig(
    1, 1, KEY, WINDOW, 2, (A, B), MEMBERS, results=(GROUP,), notices=(OBSERVER,),
    notice_every=4, hold_us=HOLD_US,
)  # fmt: skip
INNER = TreeConfig(1, 1, KEY, WINDOW, 2, (A, B), up=UP, child=7, hold_us=HOLD_US)


class Node:
    """An accelerator with one tree, and the clock."""

    def __init__(self, config: TreeConfig) -> None:
        self.accelerator = Accelerator(incarnation=4)
        self.accelerator.open(config)
        self.now_us = 5_000

    @property
    def count(self) -> TreeCounters:
        (count,) = self.accelerator.counters().trees.values()
        return count

    def take(
        self, packet: Packet, source: Address = UP, congested: bool = False
    ) -> list[tuple[Address, Packet]]:
        out = self.accelerator.handle(encode(packet, KEY), source, self.now_us, congested)
        return [opened(sent) for sent in out]

    def data(
        self, child: int, sequence: int, value: int = 1, **fields: object
    ) -> list[tuple[Address, Packet]]:
        areas = Areas(Element.INT32, bytes([value]), struct.pack("<i", value))
        packet = Packet(
            PacketType.DATA, 1, 1, sequence, child=child, leaves=1, number=sequence, sent_us=4_000
        )
        congested = bool(fields.pop("marked", False))
        packet = replace(areas.put_into(packet), **fields)  # type: ignore[arg-type]
        return self.take(packet, (A, B)[child], congested)

    def complete(self, sequence: int) -> list[tuple[Address, Packet]]:
        return self.data(0, sequence, 3) + self.data(1, sequence, 4)

    def ask(self, sequence: int, member: int = 0, **fields: object) -> list[tuple[Address, Packet]]:
        packet = Packet(PacketType.ASK, 1, 1, sequence, child=member, member=member)
        return self.take(replace(packet, **fields), MEMBERS[member])  # type: ignore[arg-type]


def opened(sent: Sent) -> tuple[Address, Packet]:
    return sent.destination, decode(sent.data, KEY)


@pytest.fixture
def root() -> Node:
    return Node(ROOT)


@pytest.fixture
def inner() -> Node:
    return Node(INNER)


def test_the_root_sends_the_sum_down_when_all_are_in(root: Node) -> None:
    assert root.data(0, 0, 3) == []
    ((to, result),) = root.data(1, 0, 4)
    assert to == GROUP
    assert (result.type, result.sequence, result.leaves) == (PacketType.RESULT, 0, 2)
    assert (result.max_area, result.sum_area) == (b"\4", struct.pack("<i", 7))
    assert (result.number, result.sent_us, result.incarnation) == (0, 5_000, 4)


def test_another_accelerator_sends_its_sum_up_as_a_child(inner: Node) -> None:
    ((to, sum_),) = inner.complete(0)
    assert to == UP
    assert (sum_.type, sum_.child, sum_.leaves) == (PacketType.DATA, 7, 2)
    assert sum_.sum_area == struct.pack("<i", 7)


def test_a_duplicate_is_counted_and_changes_nothing(root: Node) -> None:
    root.data(0, 0, 3)
    assert root.data(0, 0, 3) == []
    ((_, result),) = root.data(1, 0, 4)
    assert result.sum_area == struct.pack("<i", 7)
    assert root.data(1, 0, 4) == []
    assert (root.count.duplicates, root.count.contributions) == (2, 2)


def test_what_is_older_than_its_set_is_stale(root: Node) -> None:
    root.data(0, 2 * WINDOW)
    assert root.data(1, 0) == []
    assert (root.count.stale, root.count.contributions) == (1, 1)


def test_a_newer_sequence_evicts_an_incomplete_one(root: Node) -> None:
    root.data(0, 0, 100)
    root.data(0, 2 * WINDOW, 3)
    ((_, result),) = root.data(1, 2 * WINDOW, 4)
    assert (result.sequence, result.sum_area) == (2 * WINDOW, struct.pack("<i", 7))
    assert root.count.evictions == 1


def test_a_complete_sum_is_not_evicted_but_replaced(root: Node) -> None:
    root.complete(0)
    root.data(0, 2 * WINDOW)
    assert root.count.evictions == 0


def test_both_sets_of_a_slot_fill_at_once(root: Node) -> None:
    root.data(0, 0, 3)
    root.data(0, WINDOW, 30)
    ((_, later),) = root.data(1, WINDOW, 40)
    ((_, earlier),) = root.data(1, 0, 4)
    assert (later.sum_area, earlier.sum_area) == (struct.pack("<i", 70), struct.pack("<i", 7))


@pytest.mark.parametrize(
    "other",
    [
        Areas(Element.INT32, b"12", struct.pack("<i", 4)),
        Areas(Element.INT32, b"1", struct.pack("<2i", 4, 4)),
        Areas(Element.INT64, b"1", struct.pack("<q", 4)),
        Areas(Element.NONE, b"1", b""),
    ],
)
def test_another_shape_than_the_first_is_a_conflict(root: Node, other: Areas) -> None:
    root.data(0, 0, 3)
    packet = Packet(PacketType.DATA, 1, 1, 0, child=1, leaves=1)
    assert root.take(other.put_into(packet), B) == []
    assert root.count.conflicts == 1
    ((_, result),) = root.data(1, 0, 4)
    assert result.sum_area == struct.pack("<i", 7)


def test_areas_may_be_empty(root: Node) -> None:
    empty = Packet(PacketType.DATA, 1, 1, 0, child=0, leaves=1)
    root.take(empty, A)
    ((_, result),) = root.take(replace(empty, child=1), B)
    assert (result.element, result.max_area, result.sum_area) == (Element.NONE, b"", b"")


# --- asking --------------------------------------------------------------------------------------


def test_who_asks_for_a_complete_sum_gets_it_alone(root: Node) -> None:
    root.complete(0)
    ((to, result),) = root.ask(0, member=1)
    assert (to, result.type, result.member) == (B, PacketType.RESULT, 1)
    assert result.flags == Flag.REPEAT
    assert result.sum_area == struct.pack("<i", 7)
    assert root.count.late == 1


def test_a_sum_is_kept_while_the_next_of_its_slot_is_complete(root: Node) -> None:
    root.complete(0)
    root.complete(WINDOW)
    ((_, result),) = root.ask(0)
    assert result.sequence == 0


def test_what_can_never_come_is_told(root: Node) -> None:
    root.complete(2 * WINDOW)
    ((to, answer),) = root.ask(0)
    assert (to, answer.type, answer.sequence) == (A, PacketType.LOST, 0)
    assert root.count.lost == 1


def test_asking_for_an_incomplete_sum_asks_the_children_that_lack(root: Node) -> None:
    root.data(0, 0)
    ((to, resend),) = root.ask(0)
    assert (to, resend.type, resend.sequence) == (B, PacketType.RESEND, 0)
    assert (resend.child, resend.flags) == (1, Flag(0))


def test_they_are_not_asked_again_within_the_hold_time(root: Node) -> None:
    assert len(root.ask(0)) == 2
    root.now_us += HOLD_US - 1
    assert root.ask(0) == []
    root.now_us += 1
    assert len(root.ask(0)) == 2


def test_a_question_goes_on_to_the_root_whatever_is_known(inner: Node) -> None:
    for sequence in (0, 1):
        inner.data(0, sequence)
    inner.data(1, 0)
    for sequence in (0, 1, 2):
        to, ask = inner.ask(sequence, member=1, flags=Flag.HEADER_ONLY)[-1]
        assert (to, ask.type, ask.sequence) == (UP, PacketType.ASK, sequence)
        assert (ask.child, ask.member, ask.flags) == (7, 1, Flag.HEADER_ONLY)


def test_data_can_ask_at_the_same_time(root: Node) -> None:
    root.complete(0)
    ((to, result),) = root.data(0, 0, 3, flags=Flag.ASKING)
    assert (to, result.type) == (A, PacketType.RESULT)


def test_a_result_is_found_by_its_number(root: Node) -> None:
    root.complete(5)
    root.complete(6)
    ((_, result),) = root.ask(0, flags=Flag.BY_NUMBER, number=1)
    assert result.sequence == 6
    assert root.ask(0, flags=Flag.BY_NUMBER, number=2) == []


def test_a_receiver_that_contributes_nothing_may_ask(root: Node) -> None:
    root.complete(0)
    ((to, result),) = root.ask(0, member=2, child=NO_CHILD)
    assert (to, result.type) == (OBSERVER, PacketType.RESULT)


def test_done_tells_which_are_complete(root: Node) -> None:
    for sequence in (0, 1, 2):
        root.complete(sequence)
    root.complete(4)
    ((_, done),) = root.ask(4, flags=Flag.HEADER_ONLY, member=1)
    assert done.type == PacketType.DONE
    bits = int.from_bytes(done.max_area, "little")
    assert bits == 0b11101  # 4, not 3, and 2, 1, 0


def test_observers_are_told_every_few_sequences(root: Node) -> None:
    told = [to for sequence in range(8) for to, it in root.complete(sequence) if it.type == 5]
    assert told == [OBSERVER] * 2
    assert root.count.notices == 2


# --- repeating -----------------------------------------------------------------------------------


def resend(sequence: int, **fields: object) -> Packet:
    packet = Packet(PacketType.RESEND, 1, 1, sequence)
    return replace(packet, **fields)  # type: ignore[arg-type]


def test_a_sum_that_the_parent_lacks_is_sent_again_under_a_new_number(inner: Node) -> None:
    inner.complete(0)
    inner.now_us += HOLD_US
    ((to, sum_),) = inner.take(resend(0))
    assert (to, sum_.number, sum_.flags) == (UP, 1, Flag.REPEAT)
    assert sum_.sum_area == struct.pack("<i", 7)
    assert inner.take(resend(0)) == []


def test_a_sum_that_was_lost_under_its_number_is_sent_again_at_once(inner: Node) -> None:
    inner.complete(3)
    inner.complete(4)
    ((_, sum_),) = inner.take(resend(0, flags=Flag.BY_NUMBER, number=1))
    assert sum_.sequence == 4
    assert inner.take(resend(0, flags=Flag.BY_NUMBER, number=9)) == []


def test_what_the_parent_lacks_and_is_not_there_is_asked_for_below(inner: Node) -> None:
    inner.data(1, 0)
    ((to, below),) = inner.take(resend(0))
    assert (to, below.type, below.sequence) == (A, PacketType.RESEND, 0)


# --- gaps, flushes, delay ------------------------------------------------------------------------


def test_a_number_that_is_missing_is_asked_for_when_three_more_came(root: Node) -> None:
    root.data(0, 0, number=10)
    assert root.data(0, 1, number=12) == []
    assert root.data(0, 2, number=13) == []
    ((to, missing),) = root.data(0, 3, number=14)
    assert (to, missing.type, missing.flags) == (A, PacketType.RESEND, Flag.BY_NUMBER)
    assert missing.number == 11
    assert root.data(0, 4, number=15) == []


def missing_of(numbers: list[int]) -> list[int]:
    arrivals = Arrivals()
    return [lost for number in numbers for lost in arrivals.missing_after(number % 2**32)]


@pytest.mark.parametrize(
    ("numbers", "lost"),
    [
        ([0, 1, 2, 3], []),
        ([0, 2, 1, 3, 4], []),
        ([0, 4], [1]),
        ([0, 10], [1, 2, 3, 4, 5, 6, 7]),
        ([0, 10, 11, 12, 13], [*range(1, 8), 8, 9]),
        ([0, 10, 9, 11, 12, 13], [*range(1, 8), 8]),
        ([-2, 2], [2**32 - 1]),
        ([0, 500], [*range(436, 498)]),
        ([0, 5000, 5004], [5001]),
        ([5000, 0, 4], [1]),
    ],
)
def test_gaps_are_found_once_and_whatever_the_order(numbers: list[int], lost: list[int]) -> None:
    assert missing_of(numbers) == lost


def test_a_flush_goes_up_with_a_number_of_its_own(inner: Node) -> None:
    inner.complete(0)
    flush = Packet(PacketType.FLUSH, 1, 1, 0, child=0, number=1)
    ((to, passed),) = inner.take(flush, A)
    assert (to, passed.type, passed.child, passed.number) == (UP, PacketType.FLUSH, 7, 1)


def test_a_flush_comes_down_and_announces_what_was_not(root: Node) -> None:
    root.complete(0)
    flush = Packet(PacketType.FLUSH, 1, 1, 0, child=0, number=1)
    out = [(to, packet.type) for to, packet in root.take(flush, A)]
    assert out == [(GROUP, PacketType.FLUSH), (OBSERVER, PacketType.DONE)]
    out = [(to, packet.type) for to, packet in root.take(replace(flush, number=2), A)]
    assert out == [(GROUP, PacketType.FLUSH)]


def test_the_worst_queueing_of_all_children_and_hops_goes_on(root: Node) -> None:
    root.data(0, 0)  # transit 1000, the least of both children
    root.data(1, 0)
    root.data(0, 1, sent_us=3_300)  # 700 more
    ((_, result),) = root.data(1, 1, sent_us=3_900)  # 100 more
    assert result.delay_us == 700
    root.data(0, 2, sent_us=3_300, delay_us=900)
    ((_, result),) = root.data(1, 2)
    assert result.delay_us == 900


def test_the_least_transit_is_forgotten_after_two_periods() -> None:
    arrivals = Arrivals()
    second = 1_000_000
    assert arrivals.queueing_us(0, -100 % 2**32) == 0
    assert arrivals.queueing_us(11 * second, 11 * second - 300) == 200
    assert arrivals.queueing_us(22 * second, 22 * second - 300) == 0


@pytest.mark.parametrize("how", ["marked", "flags"])
def test_a_mark_of_one_child_marks_the_sum(root: Node, how: str) -> None:
    root.data(0, 0, **{how: Flag.CONGESTED})
    ((_, result),) = root.data(1, 0)
    assert result.flags == Flag.CONGESTED


# --- who may say what ----------------------------------------------------------------------------


def test_a_child_is_known_by_its_address(root: Node) -> None:
    data = encode(Packet(PacketType.DATA, 1, 1, 0, child=0, leaves=1), KEY)
    for source in (B, Address("10.0.0.1", 7001)):
        assert root.accelerator.handle(data, source, 0) == []
    assert (root.count.foreign, root.count.contributions) == (2, 0)


def test_a_member_beyond_the_list_is_foreign(root: Node) -> None:
    assert root.take(Packet(PacketType.ASK, 1, 1, 0, child=0, member=3), A) == []
    assert root.count.foreign == 1


@pytest.mark.parametrize("kind", [PacketType.RESULT, PacketType.DONE, PacketType.LOST])
def test_what_comes_down_is_not_for_an_accelerator(root: Node, kind: PacketType) -> None:
    assert root.take(Packet(kind, 1, 1, 0, child=0), A) == []
    assert root.count.stray == 1


def test_one_bit_anywhere_is_noticed(root: Node) -> None:
    data = encode(
        Areas(Element.INT32, b"abc", bytes(12)).put_into(
            Packet(PacketType.DATA, 1, 1, 0, child=0, leaves=1)
        ),
        KEY,
    )
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert root.accelerator.handle(bytes(damaged), A, 0) == []
    assert root.count.contributions == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:63],
        lambda data: data + b"\0",
        lambda data: b"\0" + data[1:],
        lambda data: data[:2] + b"\2" + data[3:],
        lambda data: data[:3] + b"\0" + data[4:],
        lambda data: data[:3] + b"\x08" + data[4:],
        lambda data: data[:4] + b"\x20" + data[5:],
        lambda data: data[:5] + b"\3" + data[6:],
        lambda data: data[:24] + b"\xff" * 8 + data[32:],
        lambda data: data[:38] + b"\1" + data[39:],
        lambda data: data + bytes(9216),
    ],
)
def test_what_is_no_packet_is_refused(change: object) -> None:
    data = encode(Packet(PacketType.FLUSH, 1, 1, 0), KEY)
    assert decode(data, KEY).type == PacketType.FLUSH
    with pytest.raises(PacketError):
        decode(change(data))  # type: ignore[operator]


@pytest.mark.parametrize(("mtu_bytes", "room"), [(9000, 8904), (1500, 1408)])
def test_areas_fill_the_packet(mtu_bytes: int, room: int) -> None:
    assert payload_bytes(mtu_bytes) == room
    areas = Areas(Element.INT64, b"", bytes(room))
    packet = encode(areas.put_into(Packet(PacketType.DATA, 1, 1, 0)), KEY)
    assert mtu_bytes - 8 < len(packet) + 28 <= mtu_bytes
