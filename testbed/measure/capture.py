"""Packets on the wire, when asked for: one tcpdump per link direction, read back by scapy.

Counters say how much crossed a link; a capture says whose it was. One `tcpdump` listens at the wire
end where a direction *enters* its link and takes inbound frames only. (Frames that the link
back-end sends are not seen at the far end: it sends past the queueing discipline, and the kernel
shows such frames to no listener.) Only the first 96 bytes of a frame are kept: all headers, no
data. The length on the wire is in every record, and that is what is summed.

tcpdump and not scapy's own sniffer, because the sniffer is full at 5,000 packets a second. For the
same reason reading back touches the raw bytes: the two addresses of an IPv4 header stand at fixed
places.
"""

from __future__ import annotations

import re
import signal
import socket
import struct
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.measure.counters import WireEnds
from testbed.measure.crosscheck import STRAY_BYTES
from testbed.measure.series import Counts
from topologies.errors import MachineError, RunError
from topologies.model import Direction

SNAP_BYTES = 96
RECORD_HEADER_BYTES = 16
ALL_BUFFERS_KIB = 512 * 1024
LARGEST_BUFFER_KIB = 65536
SMALLEST_BUFFER_KIB = 2048
# A capture has read all it got once its files have not grown for so long.
QUIET_S = 0.2
DRAIN_TIMEOUT_S = 5.0
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 10.0

ETHERTYPE_IPV4 = 0x0800
_ETHERNET_AND_IP = struct.Struct("!12xH12x4s4s")


@dataclass(frozen=True)
class CaptureLimits:
    """How much a capture may take, all directions together.

    Attributes:
        disk_bytes: of capture files.
        buffer_kib: of kernel memory, for frames that tcpdump has not read yet.
    """

    disk_bytes: int = 4 * 10**9
    buffer_kib: int = ALL_BUFFERS_KIB

    def packets_per_direction(self, directions: int) -> int:
        """Return after how many frames a direction's capture stops by itself."""
        return max(1, self.disk_bytes // directions // (SNAP_BYTES + RECORD_HEADER_BYTES))

    def buffer_kib_per_direction(self, directions: int) -> int:
        """Return each tcpdump's share of the buffers, within what is useful."""
        share = self.buffer_kib // directions
        return min(LARGEST_BUFFER_KIB, max(SMALLEST_BUFFER_KIB, share))


@dataclass(frozen=True)
class CaptureStatistics:
    """What one tcpdump says at its end.

    Attributes:
        captured: frames in its file.
        dropped: frames lost for want of buffer.
        full: whether it stopped by itself, at its limit of frames.
    """

    captured: int
    dropped: int
    full: bool = False

    @property
    def complete(self) -> bool:
        """Whether the file has every frame that came."""
        return self.dropped == 0 and not self.full


_STATISTICS = {
    "captured": re.compile(r"^(\d+) packets? captured", re.MULTILINE),
    "dropped": re.compile(r"^(\d+) packets? dropped by kernel", re.MULTILINE),
}


def parse_statistics(text: str, full: bool = False) -> CaptureStatistics:
    """Read tcpdump's closing lines from its standard error; raises ValueError when one lacks."""
    found = {name: pattern.search(text) for name, pattern in _STATISTICS.items()}
    values = {name: int(match[1]) for name, match in found.items() if match}
    if len(values) != len(_STATISTICS):
        raise ValueError(f"tcpdump gave no statistics: {text.strip() or 'no output'}")
    return CaptureStatistics(**values, full=full)


def capture_name(direction: Direction) -> str:
    """Return the file name of a direction's capture, such as `NYC-LON.pcap`."""
    return f"{direction.source}-{direction.target}.pcap"


def tcpdump_command(interface: str, path: Path, packets: int, buffer_kib: int) -> list[str]:
    """Return the command that writes frames coming in at an interface to a file.

    `-Z root` keeps tcpdump from giving up the right to write there; `-U` writes each frame when it
    is taken, so that the file of a killed run is readable. Without `--immediate-mode` the kernel
    collects frames in blocks, and some kernels never hand over a block that is not full. Inbound
    is told by `-Q in` and not by the filter `inbound`, which loses the first frame.
    """
    return [
        "tcpdump", "-i", interface, "-n", "-p", "-Q", "in", "--immediate-mode", "-U",
        "-Z", "root", "-s", str(SNAP_BYTES), "-B", str(buffer_kib), "-c", str(packets),
        "-w", str(path),
    ]  # fmt: skip


class Capture:
    """Running tcpdumps, one for each direction; stop it to read what they counted.

    Args:
        ends: where each direction enters its link; see `counters.wire_ends`.
        folder: where the files go; made if it is not there.
        prefix: command that enters the run's root namespace; none when the caller is in it.
        limits: how much it may take.

    Raises:
        MachineError: there is no tcpdump.
        RunError: a tcpdump could not listen. Those that could are stopped again.
    """

    def __init__(
        self,
        ends: Mapping[Direction, WireEnds],
        folder: Path,
        prefix: Sequence[str] = (),
        limits: CaptureLimits | None = None,
    ) -> None:
        self._folder = folder
        self._prefix = tuple(prefix)
        self._packets = (limits or CaptureLimits()).packets_per_direction(len(ends) or 1)
        self._buffer_kib = (limits or CaptureLimits()).buffer_kib_per_direction(len(ends) or 1)
        self._running: dict[Direction, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        try:
            for direction, end in ends.items():
                self._running[direction] = self._start(direction, end.entry)
            self._wait_until_listening()
        except BaseException:
            self._abandon()
            raise

    @property
    def files(self) -> dict[Direction, Path]:
        """The capture file of each direction."""
        return {direction: self._path(direction) for direction in self._running}

    def _path(self, direction: Direction) -> Path:
        return self._folder / capture_name(direction)

    def _messages(self, direction: Direction) -> Path:
        return self._path(direction).with_suffix(".log")

    def _start(self, direction: Direction, interface: str) -> subprocess.Popen[bytes]:
        command = tcpdump_command(interface, self._path(direction), self._packets, self._buffer_kib)
        with self._messages(direction).open("wb") as messages:
            try:
                return subprocess.Popen(
                    [*self._prefix, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=messages,
                )
            except FileNotFoundError as error:
                missing = error.filename
                raise MachineError(f"{missing} is missing: apt-get install tcpdump") from None

    def _wait_until_listening(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        for direction, process in self._running.items():
            while "listening on" not in (text := self._messages(direction).read_text()):
                if process.poll() is not None or time.monotonic() > deadline:
                    reason = text.strip() or f"silent for {START_TIMEOUT_S:.0f} s"
                    raise RunError(f"capture of {direction} did not start: {reason}")
                time.sleep(0.02)

    def stop(self) -> dict[Direction, CaptureStatistics]:
        """End all tcpdumps, once they have read what has come, and return what each took and lost.

        Raises:
            RunError: a tcpdump ended without its statistics.
        """
        self._drain()
        full = {d for d, process in self._running.items() if process.poll() is not None}
        self._interrupt()
        return {d: self._statistics(d, d in full) for d in self._running}

    def _drain(self) -> None:
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        before, now = -1, self._size()
        while now != before and time.monotonic() < deadline:
            time.sleep(QUIET_S)
            before, now = now, self._size()

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self.files.values())

    def _statistics(self, direction: Direction, full: bool) -> CaptureStatistics:
        messages = self._messages(direction)
        try:
            statistics = parse_statistics(messages.read_text(), full)
        except ValueError as error:
            raise RunError(f"capture of {direction}: {error}") from None
        messages.unlink()
        return statistics

    def _interrupt(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self._running.values():
            try:
                process.wait(timeout=STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _abandon(self) -> None:
        self._interrupt()
        for direction in self._running:
            self._messages(direction).unlink(missing_ok=True)


@dataclass(frozen=True)
class Frame:
    """One captured frame: its length on the wire and, if IPv4, its two addresses."""

    wire_bytes: int
    source_ip: str | None
    target_ip: str | None


@dataclass(frozen=True)
class FlowTotal:
    """Bytes and frames from one island to another."""

    bytes: int
    packets: int


# None stands for frames that are not between two islands: ARP, discovery, unknown addresses.
TrafficMatrix = Mapping[tuple[str, str] | None, FlowTotal]


def dissect(head: bytes, wire_bytes: int) -> Frame:
    """Read the addresses of an Ethernet frame from its first bytes."""
    if len(head) >= _ETHERNET_AND_IP.size:
        ethertype, source, target = _ETHERNET_AND_IP.unpack_from(head)
        if ethertype == ETHERTYPE_IPV4:
            return Frame(wire_bytes, socket.inet_ntoa(source), socket.inet_ntoa(target))
    return Frame(wire_bytes, None, None)


def traffic_matrix(
    frames: Iterable[Frame], site_of_ip: Callable[[str], str | None]
) -> dict[tuple[str, str] | None, FlowTotal]:
    """Sum frames by source and target island.

    Args:
        frames: as captured.
        site_of_ip: gives the site of an island's address, None for another.
    """
    totals: defaultdict[tuple[str | None, str | None], list[int]] = defaultdict(lambda: [0, 0])
    for frame in frames:
        total = totals[frame.source_ip, frame.target_ip]
        total[0] += frame.wire_bytes
        total[1] += 1
    matrix: dict[tuple[str, str] | None, FlowTotal] = {}
    for (source_ip, target_ip), (bytes_, packets) in totals.items():
        pair = _islands(source_ip, target_ip, site_of_ip)
        known = matrix.get(pair, FlowTotal(0, 0))
        matrix[pair] = FlowTotal(known.bytes + bytes_, known.packets + packets)
    return matrix


def _islands(
    source_ip: str | None, target_ip: str | None, site_of_ip: Callable[[str], str | None]
) -> tuple[str, str] | None:
    source = site_of_ip(source_ip) if source_ip else None
    target = site_of_ip(target_ip) if target_ip else None
    return (source, target) if source and target else None


def total(matrix: TrafficMatrix) -> FlowTotal:
    """Return the sum of a matrix, frames that are not between islands included."""
    return FlowTotal(
        sum(flow.bytes for flow in matrix.values()), sum(flow.packets for flow in matrix.values())
    )


def read_frames(path: Path) -> Iterator[Frame]:
    """Read a capture file; an unfinished last record, as a killed run leaves it, ends it.

    Raises:
        RunError: the file is no capture.
    """
    # Imported here: scapy takes a third of a second, and few commands read captures.
    from scapy.utils import RawPcapReader

    try:
        reader = RawPcapReader(str(path))
    except Exception as error:  # scapy raises its own and others, depending on the damage
        raise RunError(f"{path} is no capture file: {error}") from None
    with reader:
        for head, meta in reader:
            if len(head) < meta.caplen:
                return
            yield dissect(head, meta.wirelen)


def read_matrices(
    files: Mapping[Direction, Path], site_of_ip: Callable[[str], str | None]
) -> dict[Direction, dict[tuple[str, str] | None, FlowTotal]]:
    """Read the captures of many directions into one traffic matrix for each."""
    return {d: traffic_matrix(read_frames(path), site_of_ip) for d, path in files.items()}


def capture_differences(
    matrices: Mapping[Direction, TrafficMatrix], counted: Mapping[Direction, Counts]
) -> list[str]:
    """Return one line for each direction where a capture and the counters do not agree.

    Args:
        matrices: as captured.
        counted: what the interfaces counted while the capture ran; see `series.traffic_between`.
    """
    lines = []
    for direction, matrix in sorted(matrices.items()):
        captured, counts = total(matrix), counted[direction]
        if abs(captured.bytes - counts.bytes) > STRAY_BYTES:
            lines.append(
                f"{direction}: {captured.bytes} bytes in {captured.packets} frames captured, "
                f"{counts.bytes} in {counts.packets} counted"
            )
    return lines


def matrix_rows(matrices: Mapping[Direction, TrafficMatrix]) -> list[dict[str, Any]]:
    """Return all matrices as rows for a file: direction, source, target, bytes, packets.

    Source and target are null for frames that are not between islands.
    """
    return [
        {
            "direction": str(direction),
            "source": pair[0] if pair else None,
            "target": pair[1] if pair else None,
            "bytes": flow.bytes,
            "packets": flow.packets,
        }
        for direction, matrix in sorted(matrices.items())
        for pair, flow in sorted(matrix.items(), key=lambda item: item[0] or ("", ""))
    ]


def sent_matrix(
    matrices: Mapping[Direction, TrafficMatrix],
) -> dict[tuple[str, str], FlowTotal]:
    """Return what islands sent one another, each frame counted once: where it left its island."""
    up = [matrix for d, matrix in matrices.items() if d.is_access and d == Direction.up(d.target)]
    return {pair: flow for matrix in up for pair, flow in matrix.items() if pair is not None}
