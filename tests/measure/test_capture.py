"""Captures: tcpdump's words, frames by hand, files by scapy, and real wires against counters."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.measure.capture import (
    Capture,
    CaptureLimits,
    CaptureStatistics,
    FlowTotal,
    Frame,
    TrafficMatrix,
    capture_differences,
    capture_name,
    dissect,
    matrix_rows,
    parse_statistics,
    read_frames,
    read_matrices,
    sent_matrix,
    total,
    traffic_matrix,
)
from testbed.measure.counters import WireEnds, read_counters, wire_ends
from testbed.measure.sampler import Sampler
from testbed.measure.series import Counts, load_links_csv, traffic_between
from topologies.errors import RunError
from topologies.model import Direction

UP, DOWN = Direction.up("NYC"), Direction.down("NYC")
NYC_LON = Direction("NYC", "LON")
SITES = {"10.0.0.1": "NYC", "10.0.0.2": "LON"}.get


def test_statistics_are_tcpdumps_three_closing_lines() -> None:
    text = (
        "tcpdump: listening on w0a, link-type EN10MB (Ethernet), snapshot length 96 bytes\n"
        "1 packet captured\n12 packets received by filter\n3 packets dropped by kernel\n"
    )
    assert parse_statistics(text) == CaptureStatistics(captured=1, dropped=3)


def test_a_capture_is_complete_when_nothing_was_dropped_or_refused() -> None:
    assert CaptureStatistics(5, dropped=0).complete
    assert not CaptureStatistics(5, dropped=1).complete
    assert not CaptureStatistics(5, dropped=0, full=True).complete


def test_a_tcpdump_without_statistics_is_an_error_with_its_words() -> None:
    with pytest.raises(ValueError, match="no statistics: tcpdump: w0a: No such device exists"):
        parse_statistics("tcpdump: w0a: No such device exists\n")


def test_limits_are_shared_by_all_directions() -> None:
    limits = CaptureLimits(disk_bytes=40 * 112 * 1000, buffer_kib=40 * 8192)
    assert limits.packets_per_direction(40) == 1000
    assert limits.buffer_kib_per_direction(40) == 8192
    assert limits.buffer_kib_per_direction(1) == 65536
    assert limits.buffer_kib_per_direction(10_000) == 2048


def test_addresses_are_read_where_scapy_puts_them() -> None:
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import ARP, Ether

    segment = bytes(Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / TCP() / (b"x" * 10))
    assert dissect(segment[:96], 9014) == Frame(9014, "10.0.0.1", "10.0.0.2")
    assert dissect(bytes(Ether() / ARP(psrc="10.0.0.1")), 42) == Frame(42, None, None)


@given(st.binary(max_size=96))
def test_no_bytes_make_the_dissection_fail(head: bytes) -> None:
    assert dissect(head, 100).wire_bytes == 100


def test_a_matrix_sums_bytes_and_frames_by_island() -> None:
    frames = [
        Frame(9014, "10.0.0.1", "10.0.0.2"),
        Frame(100, "10.0.0.1", "10.0.0.2"),
        Frame(66, "10.0.0.2", "10.0.0.1"),
        Frame(42, None, None),
        Frame(80, "10.0.0.1", "192.0.2.7"),
    ]
    matrix = traffic_matrix(frames, SITES)
    assert matrix == {
        ("NYC", "LON"): FlowTotal(9114, 2),
        ("LON", "NYC"): FlowTotal(66, 1),
        None: FlowTotal(122, 2),
    }
    assert total(matrix) == FlowTotal(9302, 5)


def test_what_islands_sent_is_counted_once_where_it_left() -> None:
    flow, back = FlowTotal(100, 1), FlowTotal(66, 1)
    matrices: dict[Direction, TrafficMatrix] = {
        UP: {("NYC", "LON"): flow, None: FlowTotal(42, 1)},
        DOWN: {("LON", "NYC"): back},
        NYC_LON: {("NYC", "LON"): flow},
        Direction.up("LON"): {("LON", "NYC"): back},
    }
    assert sent_matrix(matrices) == {("NYC", "LON"): flow, ("LON", "NYC"): back}


def test_a_capture_that_lacks_frames_is_told_with_its_figures() -> None:
    matrices: dict[Direction, TrafficMatrix] = {
        NYC_LON: {("NYC", "LON"): FlowTotal(90_140, 10)},
        UP: {None: FlowTotal(60, 1)},
    }
    counted = {NYC_LON: Counts(99_154, 11, 0), UP: Counts(126, 2, 0)}
    assert capture_differences(matrices, counted) == [
        "NYC>LON: 90140 bytes in 10 frames captured, 99154 in 11 counted"
    ]


def test_matrices_become_rows_of_a_file() -> None:
    flow = FlowTotal(100, 1)
    rows = matrix_rows({NYC_LON: {("NYC", "LON"): flow, None: flow}})
    assert [(row["direction"], row["source"], row["target"], row["bytes"]) for row in rows] == [
        ("NYC>LON", None, None, 100),
        ("NYC>LON", "NYC", "LON", 100),
    ]


def _pcap(path: Path, count: int) -> bytes:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.utils import wrpcap

    frame = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP() / bytes(60)
    wrpcap(str(path), [frame] * count)
    return path.read_bytes()


def test_a_file_cut_short_gives_its_whole_frames(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    data = _pcap(path, 3)
    record = (len(data) - 24) // 3
    for cut, expected in ((len(data), 3), (len(data) - 1, 2), (24 + 2 * record + 5, 2), (24, 0)):
        path.write_bytes(data[:cut])
        assert len(list(read_frames(path))) == expected


def test_another_file_is_not_taken_for_a_capture(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_text("no capture at all, but long enough for a header")
    with pytest.raises(RunError, match=r"x.pcap is no capture file"):
        list(read_frames(tmp_path / "x.pcap"))


@pytest.mark.root
def test_an_interface_that_is_not_there_stops_the_capture_and_names_the_direction(
    tmp_path: Path,
) -> None:
    with pytest.raises(RunError, match=r"capture of NYC>LON did not start: .*nowhere"):
        Capture({NYC_LON: WireEnds("nowhere0", "nowhere1")}, tmp_path)
    assert list(tmp_path.glob("*.log")) == []


SEND = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for size in map(int, sys.argv[2:]):
    s.sendto(bytes(size), (sys.argv[1], 9))
"""
TRANSFER = """
import socket, sys
host, size = sys.argv[1], int(sys.argv[2])
if host == "listen":
    server = socket.create_server(("", 5001))
    print("ready", flush=True)
    peer, _ = server.accept()
    while peer.recv(65536): pass
else:
    s = socket.create_connection((host, 5001), timeout=20)
    s.sendall(bytes(size)); s.close()
"""


class _Wire:
    """NYC and LON on one wire whose ends a third namespace joins in the kernel, unshaped."""

    def __init__(self, make_namespace: Callable[[], Any]) -> None:
        self.nyc, self.lon, self.middle = (make_namespace() for _ in range(3))
        macs = {"a": "02:00:00:00:00:01", "b": "02:00:00:00:00:02"}
        for side, node, ip in (("a", self.nyc, "10.0.0.1"), ("b", self.lon, "10.0.0.2")):
            self.middle.run(f"ip link add w0{side} type veth peer name wan0 netns {node.pid}")
            self.middle.run(f"ip link set w0{side} mtu 9000 up")
            node.run(f"ip link set wan0 mtu 9000 address {macs[side]} up")
            node.run(f"ip addr add {ip}/24 dev wan0")
        self.nyc.run(f"ip neigh add 10.0.0.2 lladdr {macs['b']} dev wan0")
        self.lon.run(f"ip neigh add 10.0.0.1 lladdr {macs['a']} dev wan0")
        for here, there in (("w0a", "w0b"), ("w0b", "w0a")):
            self.middle.run(f"tc qdisc add dev {here} ingress")
            self.middle.run(
                f"tc filter add dev {here} parent ffff: protocol all u32 match u32 0 0 "
                f"action mirred egress redirect dev {there}"
            )

    @property
    def ends(self) -> dict[Direction, WireEnds]:
        return wire_ends({0: NYC_LON})

    def sent_by(self, node: Any) -> tuple[int, int]:
        """A witness of its own: the sender's interface as `ip -statistics` tells of it."""
        (link,) = json.loads(node.run("ip -json -statistics link show dev wan0"))
        return link["stats64"]["tx"]["bytes"], link["stats64"]["tx"]["packets"]

    def transfer(self, size: int) -> None:
        listen = [*self.lon.prefix, sys.executable, "-c", TRANSFER, "listen", "0"]
        with subprocess.Popen(listen, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
            send = [*self.nyc.prefix, sys.executable, "-c", TRANSFER, "10.0.0.2", str(size)]
            subprocess.run(send, check=True, timeout=60)
            server.wait(timeout=20)


@pytest.mark.root
def test_counters_and_captures_agree_to_the_byte(
    make_namespace: Callable[[], Any], tmp_path: Path
) -> None:
    wire = _Wire(make_namespace)
    capture = Capture(wire.ends, tmp_path, prefix=wire.middle.prefix)
    sizes = [100, 1400, 8000] * 200
    send = [*wire.nyc.prefix, sys.executable, "-c", SEND, "10.0.0.2", *map(str, sizes)]
    subprocess.run(send, check=True, timeout=60)
    wire.transfer(3_000_000)
    statistics = capture.stop()

    counters = read_counters(wire.ends, wire.middle.proc_net_dev)
    matrices = read_matrices(capture.files, SITES)
    assert statistics[NYC_LON].complete and statistics[NYC_LON.reverse].complete
    for direction, node in ((NYC_LON, wire.nyc), (NYC_LON.reverse, wire.lon)):
        counted, captured = counters[direction], total(matrices[direction])
        assert (captured.bytes, captured.packets) == (counted.bytes_in, counted.packets_in)
        assert (captured.bytes, captured.packets) == wire.sent_by(node)
        assert (counted.bytes_out, counted.packets_out) == (counted.bytes_in, counted.packets_in)
        assert counted.drops == 0
    there = counters[NYC_LON].bytes_in
    datagrams = sum(sizes) + len(sizes) * (14 + 20 + 8)
    assert there - datagrams > 3_000_000


@pytest.mark.root
def test_datagrams_are_counted_exactly_as_they_were_sent(
    make_namespace: Callable[[], Any], tmp_path: Path
) -> None:
    wire = _Wire(make_namespace)
    capture = Capture({NYC_LON: wire.ends[NYC_LON]}, tmp_path, prefix=wire.middle.prefix)
    send = [*wire.nyc.prefix, sys.executable, "-c", SEND, "10.0.0.2", *["1000"] * 500]
    subprocess.run(send, check=True, timeout=60)
    assert capture.stop() == {NYC_LON: CaptureStatistics(500, dropped=0)}
    matrix = read_matrices(capture.files, SITES)[NYC_LON]
    assert matrix == {("NYC", "LON"): FlowTotal(500 * (14 + 20 + 8 + 1000), 500)}
    assert [path.name for path in tmp_path.iterdir()] == [capture_name(NYC_LON)]
    counted = read_counters(wire.ends, wire.middle.proc_net_dev)[NYC_LON]
    assert (counted.bytes_in, counted.packets_in) == (500 * 1042, 500)


@pytest.mark.root
def test_a_capture_that_reaches_its_limit_says_so(
    make_namespace: Callable[[], Any], tmp_path: Path
) -> None:
    wire = _Wire(make_namespace)
    limits = CaptureLimits(disk_bytes=100 * 112)
    ends = {NYC_LON: wire.ends[NYC_LON]}
    capture = Capture(ends, tmp_path, prefix=wire.middle.prefix, limits=limits)
    send = [*wire.nyc.prefix, sys.executable, "-c", SEND, "10.0.0.2", *["10"] * 300]
    subprocess.run(send, check=True, timeout=60)
    statistics = capture.stop()[NYC_LON]
    assert (statistics.captured, statistics.full, statistics.complete) == (100, True, False)


@pytest.mark.root
def test_a_sampled_series_holds_what_was_sent_between_two_moments(
    make_namespace: Callable[[], Any], tmp_path: Path
) -> None:
    wire = _Wire(make_namespace)
    source = partial(read_counters, wire.ends, wire.middle.proc_net_dev)
    send = [*wire.nyc.prefix, sys.executable, "-c", SEND, "10.0.0.2", *["1000"] * 100]
    with Sampler(source, tmp_path / "links.csv", interval_s=0.05) as sampler:
        subprocess.run(send, check=True, timeout=60)
        sampler.sample()
        between = time.time()
        sampler.sample()  # readings are joined by lines: the line is flat around this moment
        subprocess.run(send, check=True, timeout=60)
    for series in (sampler.series(), load_links_csv(tmp_path / "links.csv")):
        first = traffic_between(series, 0, between)
        both = traffic_between(series, 0, time.time())
        assert first[NYC_LON] == Counts(100 * 1042, 100, 0)
        assert both[NYC_LON] == Counts(200 * 1042, 200, 0)
        # The other way go ICMP errors, at a rate that the receiver chooses: nobody listens.
        assert both[NYC_LON.reverse] == Counts(*wire.sent_by(wire.lon), 0)
