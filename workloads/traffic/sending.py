"""The sending end of a flow: at a rate or as fast as TCP goes, on and off, or as part of a ring."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from workloads.errors import WorkloadError
from workloads.traffic.counts import Counts, Tally
from workloads.traffic.datagrams import HEADER, stamp
from workloads.traffic.flows import UDP, FlowEnd, on_spans
from workloads.traffic.pacing import Bucket, bytes_a_second
from workloads.traffic.tcp_info import wire_bytes

CHUNK_BYTES = 64 * 1024
UNSENT_BYTES = 128 * 1024  # what may wait in the socket: little, so that a flow stops when told to
CONNECT_PATIENCE_S = 10.0
RETRY_S = 0.1
LOOK_S = 0.2  # how often a blocked sender looks whether it should stop
TICK_S = 0.01
DRAIN_S = 1.0
_TCP_NOTSENT_LOWAT = 25
_ZEROS = bytes(CHUNK_BYTES)


@dataclass(frozen=True)
class Clock:
    """The common beginning, and whether all is over.

    Attributes:
        origin_s: UNIX time from which all flows count.
        over: set when everything ends.
    """

    origin_s: float
    over: threading.Event

    def wait_until(self, since_origin_s: float) -> bool:
        """Wait; return whether there is anything left to do then."""
        left_s = self.origin_s + since_origin_s - time.time()
        if left_s > 0:
            self.over.wait(min(left_s, threading.TIMEOUT_MAX))
        return not self.over.is_set()

    def goes_on(self, until_s: float) -> bool:
        """Return whether it is not yet so late."""
        return not self.over.is_set() and time.time() < self.origin_s + until_s


def send(end: FlowEnd, clock: Clock, tally: Tally, fed_by: Tally | None) -> None:
    """Send a flow from its start to its stop, or until all is over.

    Args:
        end: the flow.
        clock: its time.
        tally: gets what was sent.
        fed_by: what arrived of the flow that feeds a ring's member.

    Raises:
        WorkloadError: the receiver could not be reached.
    """
    if not clock.wait_until(end.start_s):
        return
    if end.protocol == UDP:
        _send_udp(end, clock, tally)
        return
    with _connected(end, clock) as connection:
        if fed_by is None:
            _send_tcp(end, clock, connection, tally)
        else:
            _send_ring(end, clock, connection, tally, fed_by)
        _finish(connection, tally)


def _connected(end: FlowEnd, clock: Clock) -> socket.socket:
    patience_s = time.monotonic() + CONNECT_PATIENCE_S
    while True:
        try:
            connection = socket.create_connection((end.address, end.port), CONNECT_PATIENCE_S)
            break
        except OSError as error:
            if time.monotonic() > patience_s or clock.over.wait(RETRY_S):
                raise WorkloadError(f"flow {end.flow}: {error}") from None
    connection.settimeout(LOOK_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    return connection


def _send_tcp(end: FlowEnd, clock: Clock, connection: socket.socket, tally: Tally) -> None:
    def put(wanted: int) -> int:
        sent = _put(connection, wanted)
        _count(connection, tally)
        return sent

    for begin_s, stop_s in on_spans(end):
        if not clock.wait_until(begin_s):
            return
        if end.rate_mbps:
            _pace(end, clock, stop_s, CHUNK_BYTES, put)
        else:
            while clock.goes_on(stop_s):
                put(CHUNK_BYTES)


def _pace(
    end: FlowEnd, clock: Clock, stop_s: float, piece_bytes: int, put: Callable[[int], int]
) -> None:
    """Call `put` with as many bytes as the rate allows, up to a piece at a time."""
    rate = bytes_a_second(end.rate_mbps)
    least = min(piece_bytes, max(1, int(rate * TICK_S))) if end.protocol != UDP else piece_bytes
    bucket = Bucket(rate, least, time.monotonic())
    while clock.goes_on(stop_s):
        tokens = bucket.fill(time.monotonic())
        if tokens >= least:
            bucket.take(put(min(piece_bytes, int(tokens))))
        else:
            left_s = clock.origin_s + stop_s - time.time()
            clock.over.wait(max(0.0, min(left_s, max(TICK_S, bucket.wait_s(least)))))


def _put(connection: socket.socket, wanted: int) -> int:
    """Hand bytes to TCP; return how many it took within a short time."""
    try:
        return connection.send(memoryview(_ZEROS)[:wanted])
    except TimeoutError:
        return 0


def _count(connection: socket.socket, tally: Tally, rounds: int | None = None) -> None:
    seen = wire_bytes(connection)
    tally.put(
        Counts(
            bytes=seen.sent,
            retransmitted_bytes=seen.retransmitted,
            rounds=tally.counts.rounds if rounds is None else rounds,
        )
    )


def _finish(connection: socket.socket, tally: Tally) -> None:
    """Let what is under way arrive, and count once more."""
    try:
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(DRAIN_S)
        while connection.recv(CHUNK_BYTES):
            pass
    except OSError:
        pass  # the other end is gone or far away: what was sent is counted anyway
    _count(connection, tally)


def _send_udp(end: FlowEnd, clock: Clock, tally: Tally) -> None:
    datagram = bytearray(max(HEADER.size, end.datagram_bytes))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect((end.address, end.port))
        out.settimeout(LOOK_S)

        def put(_: int) -> int:
            counts = tally.counts
            stamp(datagram, end.number, counts.packets, time.time())
            if not _sent(out, datagram):
                return 0
            more = len(datagram)
            tally.put(replace(counts, bytes=counts.bytes + more, packets=counts.packets + 1))
            return more

        for begin_s, stop_s in on_spans(end):
            if not clock.wait_until(begin_s):
                return
            _pace(end, clock, stop_s, len(datagram), put)


def _sent(out: socket.socket, datagram: bytearray) -> bool:
    """Send a datagram; a full interface or a port that answers "unreachable" loses it."""
    try:
        out.send(datagram)
    except (TimeoutError, ConnectionRefusedError):
        return False
    return True


def _send_ring(
    end: FlowEnd, clock: Clock, connection: socket.socket, tally: Tally, fed_by: Tally
) -> None:
    """Be a member of a ring all-reduce: compute, then send as many steps as arrive, and again."""
    steps_done = rounds = 0
    while clock.goes_on(end.stop_s):
        clock.over.wait(end.compute_s)
        for _ in range(end.steps):
            if not _send_step(end, clock, connection, tally):
                return
            steps_done += 1
            if not _arrived(fed_by, steps_done * end.step_bytes, end, clock):
                return
        rounds += 1
        _count(connection, tally, rounds)


def _send_step(end: FlowEnd, clock: Clock, connection: socket.socket, tally: Tally) -> bool:
    """Send the bytes of a step; return whether all went before all was over."""
    left = end.step_bytes
    while left and clock.goes_on(end.stop_s):
        left -= _put(connection, min(left, CHUNK_BYTES))
        _count(connection, tally)
    return not left


def _arrived(fed_by: Tally, bytes_: int, end: FlowEnd, clock: Clock) -> bool:
    while clock.goes_on(end.stop_s):
        if fed_by.wait_for(bytes_, LOOK_S):
            return True
    return False
