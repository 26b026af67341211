"""What the daemon does to the bytes of a frame, read back by scapy."""

import struct
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from tests.links.driver import Driver

NEEDS_CHECKSUM = 1
TCP4, TCP6, UDP_SEGMENTS = 1, 4, 5
PAYLOAD = bytes(range(256)) * 16  # 4096 bytes: 1448 + 1448 + 1200


def offloaded(
    packet: Any, kind: int, segment_bytes: int, transport_at: int, checksum_at: int
) -> bytes:
    """As a packet socket gives it: the checksum field holds the pseudo header's sum only."""
    header = struct.pack(
        "=BBHHHH", NEEDS_CHECKSUM, kind, 0, segment_bytes, transport_at, checksum_at
    )
    return header + bytes(packet)


def tcp_over(ip: Any) -> Any:
    options = [("NOP", None), ("NOP", None), ("Timestamp", (1, 2))]
    return Ether() / ip / TCP(seq=2**32 - 1000, flags="FPAC", options=options) / Raw(PAYLOAD)


def cut(driver: Driver, packet: bytes) -> tuple[int, int, list[Any]]:
    """The wire frames as scapy reads them, checksums completed."""
    summary, *segments = driver.ask(f"segments {packet.hex()}")
    frames, wire_bytes = map(int, summary.split())
    whole = [bytes.fromhex(driver.ask(f"checksum {segment}")[0]) for segment in segments]
    assert all(segment[0] & NEEDS_CHECKSUM == 0 for segment in whole)
    return frames, wire_bytes, [Ether(segment[10:]) for segment in whole]


def rebuilt(frame: Any) -> bytes:
    """The same frame with all lengths and checksums computed by scapy."""
    copy = frame.copy()
    for layer in (IP, IPv6, TCP, UDP):
        for name in ("len", "plen", "chksum"):
            if layer in copy and name in copy[layer].fields:
                del copy[layer].fields[name]
    return bytes(copy)


IPV4 = IP(src="10.0.0.1", dst="10.0.0.2", id=65535)
IPV6 = IPv6(src="fd00::1", dst="fd00::2")
CASES = {
    "tcp over ipv4": (tcp_over(IPV4), TCP4, 34, 16, 32),
    "tcp over ipv6": (tcp_over(IPV6), TCP6, 54, 16, 32),
    "udp over ipv4": (Ether() / IPV4 / UDP() / Raw(PAYLOAD), UDP_SEGMENTS, 34, 6, 8),
    "tcp in a vlan": (
        Ether() / Dot1Q(vlan=5) / IPV4 / TCP(flags="FPAC") / Raw(PAYLOAD), TCP4, 38, 16, 20
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_segments_headers_are_charged(driver: Driver, name: str) -> None:
    packet, kind, transport_at, checksum_at, transport_bytes = CASES[name]
    frames, wire_bytes, _ = cut(driver, offloaded(packet, kind, 1448, transport_at, checksum_at))
    assert frames == 3
    assert wire_bytes == 4096 + 3 * (transport_at + transport_bytes)


@pytest.mark.parametrize("name", CASES)
def test_segments_have_right_lengths_and_checksums(driver: Driver, name: str) -> None:
    packet, kind, transport_at, checksum_at, _ = CASES[name]
    _, _, segments = cut(driver, offloaded(packet, kind, 1448, transport_at, checksum_at))
    assert [len(segment[Raw].load) for segment in segments] == [1448, 1448, 1200]
    assert b"".join(segment[Raw].load for segment in segments) == PAYLOAD
    assert [bytes(segment) for segment in segments] == [rebuilt(segment) for segment in segments]


def test_segments_of_tcp_count_on_and_end_once(driver: Driver) -> None:
    packet, kind, transport_at, checksum_at, _ = CASES["tcp over ipv4"]
    _, _, segments = cut(driver, offloaded(packet, kind, 1448, transport_at, checksum_at))
    assert [segment[TCP].seq for segment in segments] == [2**32 - 1000, 448, 1896]
    assert [str(segment[TCP].flags) for segment in segments] == ["AC", "A", "FPA"]
    assert [segment[IP].id for segment in segments] == [65535, 0, 1]


def test_a_frame_that_is_no_offload_is_one(driver: Driver) -> None:
    packet = struct.pack("=BBHHHH", 0, 0, 0, 0, 0, 0) + bytes(Ether() / IPV4 / UDP() / b"abc")
    assert driver.ask(f"segments {packet.hex()}") == [f"1 {len(packet) - 10}"]


@pytest.mark.parametrize(
    ("what", "header"),
    [
        ("a segment size of zero", (1, TCP4, 0, 0, 34, 16)),
        ("no checksum to complete", (0, TCP4, 0, 1448, 34, 16)),
        ("a transport header before the ip header", (1, TCP4, 0, 1448, 4, 16)),
        ("a transport header behind the end", (1, TCP4, 0, 1448, 60_000, 16)),
        ("another ip version", (1, TCP6, 0, 1448, 34, 16)),
        ("an unknown kind", (1, 77, 0, 1448, 34, 16)),
    ],
)
def test_an_offload_header_that_lies_is_not_followed(
    driver: Driver, what: str, header: tuple[int, ...]
) -> None:
    packet = struct.pack("=BBHHHH", *header) + bytes(tcp_over(IPV4))
    assert driver.ask(f"segments {packet.hex()}") == [f"1 {len(packet) - 10}"], what


def test_a_tcp_header_longer_than_the_frame_is_not_followed(driver: Driver) -> None:
    packet = bytearray(offloaded(Ether() / IPV4 / TCP(), TCP4, 1448, 34, 16))
    packet[10 + 34 + 12] = 0xF0
    assert driver.ask(f"segments {packet.hex()}") == [f"1 {len(packet) - 10}"]


@pytest.mark.parametrize("bit", [0, 14 * 8, 40 * 8 + 3, 10**15 + 7])
def test_a_flipped_bit_is_one_bit_of_the_finished_frame(driver: Driver, bit: int) -> None:
    frame = Ether() / IPV4 / UDP(sport=1, dport=2) / Raw(b"x" * 100)
    finished = Ether(bytes(frame))
    started = finished.copy()
    udp_bytes = len(started[UDP])
    started[UDP].chksum = pseudo_header_sum(started, udp_bytes)
    packet = struct.pack("=BBHHHH", NEEDS_CHECKSUM, 0, 0, 0, 34, 6) + bytes(started)
    flipped = bytes.fromhex(driver.ask(f"flip {bit} {packet.hex()}")[0])
    differing = int.from_bytes(flipped[10:], "big") ^ int.from_bytes(bytes(finished), "big")
    assert differing.bit_count() == 1
    assert flipped[0] & NEEDS_CHECKSUM == 0


def pseudo_header_sum(frame: Any, transport_bytes: int) -> int:
    words = bytes(frame[IP])[12:20] + struct.pack(">HH", 17, transport_bytes)
    total: int = sum(struct.unpack(f">{len(words) // 2}H", words))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_a_vlan_tag_is_put_back_behind_the_addresses(driver: Driver) -> None:
    plain = offloaded(tcp_over(IPV4), TCP4, 1448, 34, 16)
    tagged = bytes.fromhex(driver.ask(f"vlan {0x8100} {5 << 13 | 7} {plain.hex()}")[0])
    frame = Ether(tagged[10:])
    assert (frame[Dot1Q].vlan, frame[Dot1Q].prio) == (7, 5)
    assert bytes(frame[IP]) == plain[10 + 14 :]
    assert struct.unpack("=H", tagged[6:8]) == (38,)
