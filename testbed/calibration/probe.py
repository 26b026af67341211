"""Sends trains of frames from interfaces inside nodes and collects what arrives, in one thread.

Both ends of a link are interfaces of namespaces on one machine, so both read the same clock and
one-way delay is a subtraction. A packet socket on the interface itself (packet(7)) sees the link
alone: the frame has not been in a switch yet, nor in an island's protocols. Its time of arrival is
the kernel's (SO_TIMESTAMPNS, socket(7)), so it does not matter when the frame is read; it is read
when nothing is to be sent.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from heapq import merge
from typing import TypeVar

from testbed.calibration.frames import ETHERTYPE, HEAD_BYTES, blank_frame, read_marks, stamp
from testbed.calibration.plan import Train
from testbed.links.namespace import inside_namespace_of
from topologies.errors import MachineError

SO_TIMESTAMPNS = 35
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
BUFFER_BYTES = 256 << 20
TIMESPEC = struct.Struct("@ll")
PRIORITY = 5  # of SCHED_RR: behind links and switches, before everybody else

Result = TypeVar("Result")


@dataclass(frozen=True)
class LinkEnd:
    """An interface, by a process of its namespace, its name and its Ethernet address."""

    pid: int
    interface: str
    mac: str


@dataclass(frozen=True)
class Sent:
    """One frame that was sent; `ns` is the realtime clock's."""

    direction: int
    sequence: int
    ns: int


@dataclass(frozen=True)
class Arrival:
    """One frame that came; both times are the realtime clock's."""

    direction: int
    sequence: int
    sent_ns: int
    received_ns: int


class Prober:
    """Packet sockets on both ends of every direction; use it in a `with` statement.

    Args:
        ways: for each direction, by number, its source and its target.

    Raises:
        MachineError: a socket cannot be opened there.
    """

    def __init__(self, ways: Mapping[int, tuple[LinkEnd, LinkEnd]]) -> None:
        self._ways = dict(ways)
        self._token = int.from_bytes(os.urandom(8), "big")
        self._next = dict.fromkeys(ways, 0)
        self._arrivals: list[Arrival] = []
        self._poll = select.poll()
        self._by_fd: dict[int, tuple[socket.socket, LinkEnd]] = {}
        with ExitStack() as opened:
            self._sockets = self._open_all(opened)
            self._opened = opened.pop_all()

    def _open_all(self, opened: ExitStack) -> dict[LinkEnd, socket.socket]:
        made = {}
        for end in sorted({end for way in self._ways.values() for end in way}, key=repr):
            made[end] = opened.enter_context(_packet_socket(end))
            self._poll.register(made[end], select.POLLIN)
            self._by_fd[made[end].fileno()] = (made[end], end)
        return made

    def send(self, trains: Sequence[Train]) -> list[Sent]:
        """Send trains, each frame at its time or as soon after as can be; takes until the last.

        Sequence numbers go on from one call to the next.
        """
        frames = {train.direction: self._frame(train) for train in trains}
        sent = []
        start_s = time.perf_counter()
        for due_s, direction in merge(*map(_departures, trains)):
            self._pause_until(start_s + due_s)
            sequence, self._next[direction] = self._next[direction], self._next[direction] + 1
            sent.append(Sent(direction, sequence, self._launch(frames[direction], sequence)))
        return sent

    def _frame(self, train: Train) -> tuple[socket.socket, bytearray]:
        source, target = self._ways[train.direction]
        size = train.frame_bytes
        frame = blank_frame(source.mac, target.mac, self._token, train.direction, size)
        return self._sockets[source], frame

    @staticmethod
    def _launch(ready: tuple[socket.socket, bytearray], sequence: int) -> int:
        through, frame = ready
        now_ns = time.time_ns()
        stamp(frame, sequence, now_ns)
        with suppress(BlockingIOError):  # a frame that does not go counts as one that is lost
            through.send(frame)
        return now_ns

    @staticmethod
    def _pause_until(due_s: float) -> None:
        left_s = due_s - time.perf_counter()
        if left_s > 0:
            time.sleep(left_s)

    def collect(self, within_s: float, enough: int | None = None) -> list[Arrival]:
        """Return what has come since the last call, waiting `within_s` at most or for `enough`."""
        deadline_s = time.perf_counter() + within_s
        while enough is None or len(self._arrivals) < enough:
            left_s = deadline_s - time.perf_counter()
            ready = self._poll.poll(max(0.0, left_s * 1000))
            for descriptor, _ in ready:
                self._drain(*self._by_fd[descriptor])
            if left_s <= 0 and not ready:
                break
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    def _drain(self, one: socket.socket, end: LinkEnd) -> None:
        with suppress(BlockingIOError):
            while True:
                head, control, _, _ = one.recvmsg(HEAD_BYTES, 64, socket.MSG_DONTWAIT)
                self._take(head, control, end)

    def _take(self, head: bytes, control: list[tuple[int, int, bytes]], end: LinkEnd) -> None:
        marks = read_marks(head, self._token)
        received_ns = _arrival_ns(control)
        way = self._ways.get(marks.direction) if marks else None
        if marks is None or received_ns is None or way is None or way[1] != end:
            return
        self._arrivals.append(Arrival(marks.direction, marks.sequence, marks.sent_ns, received_ns))

    def __enter__(self) -> Prober:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


def _departures(train: Train) -> Iterator[tuple[float, int]]:
    for place in range(train.count):
        yield train.start_s + place * train.interval_s, train.direction


def _packet_socket(end: LinkEnd) -> socket.socket:
    try:
        with inside_namespace_of(end.pid):
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        made.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
        made.bind((end.interface, ETHERTYPE))
    except OSError as error:
        raise MachineError(
            f"no packet socket on {end.interface}: {error.strerror}; calibration needs root"
        ) from error
    return made


def _arrival_ns(control: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
            seconds, nanoseconds = TIMESPEC.unpack_from(data)
            return int(seconds) * 1_000_000_000 + int(nanoseconds)
    return None


def in_own_thread(work: Callable[[], Result], realtime: bool) -> Result:
    """Do `work` in a thread of its own, with real-time priority if asked for and permitted.

    Priority and network namespace belong to a thread, so neither can stay behind with the caller.
    """
    results: list[Result] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            if realtime:
                with suppress(PermissionError):
                    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
            results.append(work())
        except BaseException as error:  # handed to the caller below
            failures.append(error)

    thread = threading.Thread(target=run, name="calibration")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
