"""Sends ICMP echo requests to many addresses and prints the round trips: a program of its own.

It runs inside an island's network namespace, by its path and with the standard library alone, so
that it starts in a few hundredths of a second:

    python -I -S echo.py --rounds 6 --interval-ms 10 --timeout-ms 1500 10.0.0.2 10.0.0.3

and prints a JSON object: for each address the milliseconds of each probe in order, null if lost.

Why not ping or fping: both print three digits, so a round trip of 315 ms comes to the nearest
millisecond, while links here are meant to be right to a fifth of that. And both look at the clock
when they get to run; here the *kernel* notes when an answer came in (SO_TIMESTAMPNS, socket(7)), so
a busy machine does not lengthen the way.

One probe is sent every interval, to the targets in turn. ICMP echo is RFC 792.

A prober that waits for a processor would count its own waiting as the network's, so it may ask for
real-time priority (`--realtime`). It does so only when it is ready to send, and all probers of a
network begin at one moment (`--start-at`): dozens of interpreters that start up with priority would
starve the kernel threads that carry the frames.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import socket
import struct
import time
from typing import Final

ECHO_REQUEST: Final = 8
ECHO_REPLY: Final = 0
ECHO_HEADER: Final = struct.Struct("!BBHHH")
PAYLOAD: Final = bytes(56)
TIMESPEC: Final = struct.Struct("@ll")
SO_TIMESTAMPNS: Final = 35
SOL_RAW: Final = 255
ICMP_FILTER: Final = 1
SEQUENCE_NUMBERS: Final = 65536
RECEIVE_BUFFER_BYTES: Final = 1 << 20
REALTIME_PRIORITY: Final = 5

Times = dict[str, list["float | None"]]


def checksum(data: bytes) -> int:
    """Return the Internet checksum of an even number of bytes (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo_request(identifier: int, sequence: int) -> bytes:
    """Return an echo request as it goes behind an IP header."""
    blank = ECHO_HEADER.pack(ECHO_REQUEST, 0, 0, identifier, sequence) + PAYLOAD
    return ECHO_HEADER.pack(ECHO_REQUEST, 0, checksum(blank), identifier, sequence) + PAYLOAD


def sequence_of_reply(packet: bytes, identifier: int) -> int | None:
    """Return the sequence number of an IPv4 packet that answers one of ours, None for another."""
    header_bytes = (packet[0] & 0x0F) * 4 if packet else 0
    if len(packet) < header_bytes + ECHO_HEADER.size:
        return None
    kind, _, _, found, sequence = ECHO_HEADER.unpack_from(packet, header_bytes)
    ours = packet[header_bytes + ECHO_HEADER.size :] == PAYLOAD
    return sequence if kind == ECHO_REPLY and found == identifier and ours else None


class Prober:
    """Probes its targets in turn through one raw socket."""

    def __init__(self, targets: list[str], rounds: int) -> None:
        self._targets = targets
        self._rounds = rounds
        self._identifier = int.from_bytes(os.urandom(2), "big")
        self._sent_ns: dict[int, int] = {}
        self._round_trip_ns: dict[int, int] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        only_replies = struct.pack("@I", ~(1 << ECHO_REPLY) & 0xFFFFFFFF)
        self._socket.setsockopt(SOL_RAW, ICMP_FILTER, only_replies)

    def run(self, interval_s: float, timeout_s: float) -> Times:
        """Send all probes, wait for the last answers and return the round trips in ms."""
        start_s = time.monotonic()
        total = len(self._targets) * self._rounds
        for sequence in range(total):
            self._listen_until(start_s + sequence * interval_s)
            self._send(sequence)
        self._listen_until(time.monotonic() + timeout_s, total)
        return {target: self._times(index) for index, target in enumerate(self._targets)}

    def _send(self, sequence: int) -> None:
        request = echo_request(self._identifier, sequence)
        target = self._targets[sequence % len(self._targets)]
        self._sent_ns[sequence] = time.time_ns()
        # An address without a route counts as one that does not answer.
        with contextlib.suppress(OSError):
            self._socket.sendto(request, (target, 0))

    def _listen_until(self, deadline_s: float, enough: int | None = None) -> None:
        """Take answers until a moment of the monotonic clock, or until there are enough."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while len(self._round_trip_ns) != enough:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return
            if poll.poll(left_s * 1000):
                self._receive()

    def _receive(self) -> None:
        try:
            packet, control, _, sender = self._socket.recvmsg(2048, 64)
        except OSError:
            return
        sequence = sequence_of_reply(packet, self._identifier)
        if sequence not in self._sent_ns or sequence is None:
            return
        if sender[0] == self._targets[sequence % len(self._targets)]:
            came_ns = _arrival_ns(control)
            self._round_trip_ns.setdefault(sequence, came_ns - self._sent_ns[sequence])

    def _times(self, index: int) -> list[float | None]:
        sequences = range(index, len(self._targets) * self._rounds, len(self._targets))
        times_ns = (self._round_trip_ns.get(sequence) for sequence in sequences)
        return [None if time_ns is None else time_ns / 1e6 for time_ns in times_ns]


def _arrival_ns(control: list[tuple[int, int, bytes]]) -> int:
    """Return when the kernel took a packet in; now, should it not say."""
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = TIMESPEC.unpack_from(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return time.time_ns()


def take_priority() -> None:
    """Ask for real-time priority, below that of switches and links; do without if refused."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(REALTIME_PRIORITY))


def main() -> None:
    """Read the command line, probe, and print the round trips."""
    parser = argparse.ArgumentParser(description="Probe addresses by ICMP echo.")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--interval-ms", type=float, required=True)
    parser.add_argument("--timeout-ms", type=float, required=True)
    parser.add_argument("--start-at", type=float, default=0.0, help="UNIX time, in seconds")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("targets", nargs="+")
    arguments = parser.parse_args()
    if len(arguments.targets) * arguments.rounds > SEQUENCE_NUMBERS:
        parser.error(f"more than {SEQUENCE_NUMBERS} probes")
    prober = Prober(arguments.targets, arguments.rounds)
    time.sleep(max(0.0, arguments.start_at - time.time()))
    if arguments.realtime:
        take_priority()
    print(json.dumps(prober.run(arguments.interval_ms / 1000, arguments.timeout_ms / 1000)))


if __name__ == "__main__":
    main()
