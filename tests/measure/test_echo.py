"""ICMP echo by hand, against scapy, and against a second opinion from iputils."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP

from testbed.measure.echo import ECHO_HEADER, PAYLOAD, checksum, echo_request, sequence_of_reply
from testbed.measure.reach import Probing, probe_island

_NUMBERS = st.integers(0, 65535)


def test_the_checksum_is_that_of_the_example_in_rfc_1071() -> None:
    # Section 3: 0001 f203 f4f5 f6f7 sum up to ddf2 with end-around carry.
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2


@given(_NUMBERS, _NUMBERS)
def test_a_request_is_what_scapy_builds(identifier: int, sequence: int) -> None:
    expected = bytes(ICMP(type="echo-request", id=identifier, seq=sequence) / PAYLOAD)
    assert echo_request(identifier, sequence) == expected


@given(_NUMBERS, _NUMBERS, st.integers(0, 10))
def test_a_reply_is_read_behind_a_header_of_any_length(
    identifier: int, sequence: int, options: int
) -> None:
    reply = ICMP(type="echo-reply", id=identifier, seq=sequence) / PAYLOAD
    packet = bytes(IP(options=[b"\x01" * 4] * options) / reply)
    assert sequence_of_reply(packet, identifier) == sequence
    assert sequence_of_reply(packet, identifier ^ 1) is None


@pytest.mark.parametrize("payload", [b"", PAYLOAD[:-1], PAYLOAD + b"\0", b"\1" + PAYLOAD[1:]])
def test_a_reply_with_another_payload_is_not_ours(payload: bytes) -> None:
    packet = bytes(IP() / ICMP(type="echo-reply", id=7, seq=1) / payload)
    assert sequence_of_reply(packet, 7) is None


def test_a_request_of_somebody_else_is_no_reply() -> None:
    packet = bytes(IP() / ICMP(type="echo-request", id=7, seq=1) / PAYLOAD)
    assert sequence_of_reply(packet, 7) is None


@given(st.binary(max_size=80))
def test_no_packet_makes_the_reading_fail(packet: bytes) -> None:
    sequence = sequence_of_reply(packet, 1)
    assert sequence is None or len(packet) >= ECHO_HEADER.size


@pytest.mark.root
@pytest.mark.timing
def test_times_are_in_order_and_no_longer_than_those_of_ping(
    make_namespace: Callable[[], Any],
) -> None:
    here = make_namespace()
    here.run("ip link set lo up")
    probing = Probing(probes=20, discarded=0, interval_ms=2, timeout_ms=300)
    times = probe_island(here.prefix, ["127.0.0.1", "127.0.0.2"], probing)
    assert {address: len(row) for address, row in times.items()} == {
        "127.0.0.1": 20,
        "127.0.0.2": 20,
    }
    answered = [x for row in times.values() for x in row if x is not None]
    assert len(answered) == 40 and min(answered) > 0
    text = here.run("ping -q -c 20 -i 0.002 127.0.0.1")
    ping_min_ms = float(re.search(r"= ([\d.]+)/", text)[1])  # type: ignore[index]
    assert min(answered) < 10 * max(ping_min_ms, 0.01)  # ping prints microseconds
