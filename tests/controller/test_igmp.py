"""IGMP reports: frames written down by the RFCs, and what hosts of bad will could send."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.igmp import Kind, Record, Report, checksum, general_query, ipv4_frame, parse

HOST = IPv4Address("10.0.0.1")
MAC, TARGET_MAC = bytes.fromhex("020000000001"), bytes.fromhex("01005e000016")
ALL_V3 = IPv4Address("224.0.0.22")
ADDRESSES = st.integers(0, 2**32 - 1).map(IPv4Address)
GROUPS = st.integers(0xE0000000, 0xEFFFFFFF).map(IPv4Address)
RECORDS = st.builds(
    Record, st.sampled_from(Kind), GROUPS.map(str), st.frozensets(ADDRESSES.map(str), max_size=4)
)

# Captured from Linux 6 at 10.0.0.1: IP_ADD_MEMBERSHIP of 239.1.2.3, then IP_DROP_MEMBERSHIP; and
# the same with force_igmp_version = 2.
LINUX_JOIN = bytes.fromhex(
    "01005e000016020000000001080046c00028000040000102f9f80a000001e000001694040000"
    "2200e8f90000000104000000ef010203"
)
LINUX_LEAVE = bytes.fromhex(
    "01005e000016020000000001080046c00028000040000102f9f80a000001e000001694040000"
    "2200e9f90000000103000000ef010203"
)
LINUX_JOIN_V2 = bytes.fromhex(
    "01005e010203020000000001080046c00020000040000102e9120a000001ef010203940400001600f8faef010203"
)
LINUX_LEAVE_V2 = bytes.fromhex(
    "01005e000002020000000001080046c00020000040000102fa140a000001e0000002940400001700f7faef010203"
)


def _summed(message: bytes) -> bytes:
    return message[:2] + checksum(message).to_bytes(2, "big") + message[4:]


def _frame(message: bytes, target: str) -> bytes:
    return ipv4_frame(_summed(message), HOST, IPv4Address(target), MAC, TARGET_MAC)


def _old(kind: int, group: str) -> bytes:
    return struct.pack("!BBH", kind, 0, 0) + IPv4Address(group).packed


def _v3(*records: Record, auxiliary_words: int = 0) -> bytes:
    message = struct.pack("!BBHHH", 0x22, 0, 0, 0, len(records))
    for record in records:
        sources = sorted(record.sources)
        message += struct.pack("!BBH", record.kind, auxiliary_words, len(sources))
        message += IPv4Address(record.group_ip).packed
        message += b"".join(IPv4Address(source).packed for source in sources)
        message += bytes(4 * auxiliary_words)
    return message


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (LINUX_JOIN, Kind.TO_EXCLUDE),
        (LINUX_LEAVE, Kind.TO_INCLUDE),
        (LINUX_JOIN_V2, Kind.TO_EXCLUDE),
        (LINUX_LEAVE_V2, Kind.TO_INCLUDE),
    ],
)
def test_what_linux_sends_is_read(frame: bytes, kind: Kind) -> None:
    assert parse(frame) == Report("10.0.0.1", (Record(kind, "239.1.2.3"),))


@pytest.mark.parametrize(
    ("kind", "target", "record"),
    [
        (0x12, "239.1.2.3", Kind.TO_EXCLUDE),
        (0x16, "239.1.2.3", Kind.TO_EXCLUDE),
        (0x17, "224.0.0.2", Kind.TO_INCLUDE),
    ],
)
def test_older_versions_join_and_leave(kind: int, target: str, record: Kind) -> None:
    report = parse(_frame(_old(kind, "239.1.2.3"), target))
    assert report == Report("10.0.0.1", (Record(record, "239.1.2.3"),))


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORDS, max_size=4), st.integers(0, 3))
def test_records_come_back_as_they_were_sent(records: list[Record], auxiliary_words: int) -> None:
    frame = _frame(_v3(*records, auxiliary_words=auxiliary_words), str(ALL_V3))
    assert parse(frame) == Report("10.0.0.1", tuple(records))


def test_padding_of_short_frames_is_no_part_of_the_packet() -> None:
    frame = _frame(_old(0x16, "239.1.2.3"), "239.1.2.3")
    assert parse(frame + bytes(60 - len(frame))) == parse(frame) is not None


@pytest.mark.parametrize(
    ("what", "frame"),
    [
        ("a v2 report sent elsewhere", _frame(_old(0x16, "239.1.2.3"), "239.1.2.4")),
        ("a leave not sent to all routers", _frame(_old(0x17, "239.1.2.3"), "239.1.2.3")),
        ("a group that is none", _frame(_old(0x16, "10.0.0.9"), "10.0.0.9")),
        ("a query", _frame(_old(0x11, "0.0.0.0"), "224.0.0.1")),
        ("an unknown type", _frame(_old(0x99, "239.1.2.3"), "239.1.2.3")),
        ("seven bytes", _frame(_old(0x16, "239.1.2.3")[:7], "239.1.2.3")),
        ("a long v2 report", _frame(_old(0x16, "239.1.2.3") + bytes(4), "239.1.2.3")),
        (
            "more records announced than there are",
            _frame(struct.pack("!BBHHH", 0x22, 0, 0, 0, 2) + _v3(Record(Kind(4), "239.1.2.3"))[8:],
                   "224.0.0.22"),
        ),
        (
            "bytes after the last record",
            _frame(_v3(Record(Kind(4), "239.1.2.3")) + bytes(4), "224.0.0.22"),
        ),
        (
            "a kind of record that does not exist",
            _frame(_v3(Record(Kind(4), "239.1.2.3")).replace(b"\x04\x00\x00\x00", bytes(4)),
                   "224.0.0.22"),
        ),
    ],
)  # fmt: skip
def test_what_is_not_exactly_a_report_is_none(what: str, frame: bytes) -> None:
    assert parse(frame) is None, what


@pytest.mark.parametrize(
    ("place", "value"),
    [(12, 0x86), (14, 0x36), (14, 0x44), (20, 0x20), (21, 0x01), (22, 2), (23, 17), (17, 0xFF)],
)
def test_a_broken_ipv4_header_is_refused_even_with_a_right_checksum(place: int, value: int) -> None:
    frame = bytearray(LINUX_JOIN)
    frame[place] = value
    frame[24:26] = bytes(2)
    header = bytes(frame[14:38])
    frame[24:26] = checksum(header).to_bytes(2, "big")
    assert parse(bytes(frame)) is None


@settings(max_examples=60, deadline=None)
@given(st.integers(14, len(LINUX_JOIN) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_noticed(place: int, flip: int) -> None:
    frame = bytearray(LINUX_JOIN)
    frame[place] ^= flip
    assert parse(bytes(frame)) is None


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80), st.sampled_from([b"", LINUX_JOIN[:14], LINUX_JOIN[:38]]))
def test_no_bytes_raise(tail: bytes, head: bytes) -> None:
    assert parse(head + tail) is None or tail


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=64))
def test_no_message_in_a_sound_packet_raises(message: bytes) -> None:
    report = parse(_frame(b"\x22\0\0\0" + message, "224.0.0.22"))
    assert report is None or len(report.records) == int.from_bytes(message[2:4], "big")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(LINUX_JOIN) - 1))
def test_a_frame_that_is_cut_off_is_none(length: int) -> None:
    assert parse(LINUX_JOIN[:length]) is None


def test_the_query_is_the_one_of_rfc_3376() -> None:
    frame = general_query()
    assert frame[:6] == bytes.fromhex("01005e000001")
    assert frame[22:24] == b"\x01\x02", "TTL 1, protocol 2"
    assert frame[26:34] == bytes(4) + bytes([224, 0, 0, 1])
    assert frame[34:38] == bytes.fromhex("94040000"), "router alert"
    message = frame[38:]
    assert message[:2] == b"\x11\x0a" and message[4:] == bytes(4) + bytes([2, 125, 0, 0])
    assert checksum(message) == checksum(frame[14:38]) == 0
