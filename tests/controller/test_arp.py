"""ARP answers, byte by byte as RFC 826 lays them down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import arp

MAC_OF = {"10.0.0.1": "02:00:00:00:00:01", "10.0.0.2": "02:00:00:00:00:02"}
BROADCAST = bytes([255] * 6)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _ip(text: str) -> bytes:
    return bytes(int(part) for part in text.split("."))


def _request(sender_mac: str, sender_ip: str, target_ip: str, opcode: int = 1) -> bytes:
    """An Ethernet frame by RFC 826, field by field."""
    fixed = bytes.fromhex("0806") + bytes.fromhex("0001 0800 06 04") + opcode.to_bytes(2, "big")
    addresses = _mac(sender_mac) + _ip(sender_ip) + bytes(6) + _ip(target_ip)
    return BROADCAST + _mac(sender_mac) + fixed + addresses


def test_a_request_is_answered_in_the_owners_name() -> None:
    frame = arp.answer(_request("02:00:00:00:00:01", "10.0.0.1", "10.0.0.2"), MAC_OF.get)
    assert frame is not None
    assert frame[:14] == _mac("02:00:00:00:00:01") + _mac("02:00:00:00:00:02") + b"\x08\x06"
    assert frame[14:22] == bytes.fromhex("0001 0800 06 04 0002")
    assert frame[22:32] == _mac("02:00:00:00:00:02") + _ip("10.0.0.2")
    assert frame[32:42] == _mac("02:00:00:00:00:01") + _ip("10.0.0.1")


@pytest.mark.parametrize(
    "frame",
    [
        _request("02:00:00:00:00:01", "10.0.0.1", "10.0.0.9"),
        _request("02:00:00:00:00:01", "0.0.0.0", "10.0.0.1"),
        _request("02:00:00:00:00:01", "10.0.0.1", "10.0.0.1"),
        _request("02:00:00:00:00:01", "10.0.0.1", "10.0.0.2", opcode=2),
        b"",
        BROADCAST,
    ],
    ids=["unknown address", "probe of its own", "announcement", "reply", "empty", "truncated"],
)
def test_silence_is_right_for(frame: bytes) -> None:
    assert arp.answer(frame, MAC_OF.get) is None


@given(st.binary(max_size=64))
def test_a_hostile_frame_is_dropped_without_an_exception(tail: bytes) -> None:
    answer = arp.answer(BROADCAST + _mac("02:00:00:00:00:01") + b"\x08\x06" + tail, MAC_OF.get)
    assert answer is None or tail[:8] == bytes.fromhex("0001080006040001")
