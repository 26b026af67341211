"""One wire between two hosts, joined by a back-end, with a stream of datagrams over it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.links.backend import DirectionCounters, LinkBackend
from testbed.links.linkd_backend import LinkdBackend
from testbed.links.netem_backend import NetemBackend
from testbed.links.spec import LinkSpec
from testbed.links.stream import Arrival, Stream
from testbed.links.trial import Trial
from topologies.model import Direction

FORWARD = Direction("A0", "B0")
QUIET_S = 0.5


@dataclass
class Rig:
    trial: Trial
    backend: LinkBackend
    stream: Stream

    def change(self, **fields: object) -> None:
        with self.trial.middle.entered():
            self.backend.change(FORWARD, **fields)

    def counters(self, direction: Direction = FORWARD) -> DirectionCounters:
        with self.trial.middle.entered():
            return self.backend.counters()[direction]

    def carry(self, count: int, payload_bytes: int = 100, interval_s: float = 0) -> list[Arrival]:
        """Send and receive; the wait is as long as the queue and the fibre may hold a frame."""
        self.stream.send(count, payload_bytes, interval_s)
        spec = self.backend.spec(FORWARD)
        held_ms = spec.one_way_delay_ms + spec.jitter_ms + spec.frame_ms
        return self.stream.receive(QUIET_S + held_ms / 1000)


def start(name: str, folder: Path, program: Path | None = None, grain_us: int = 0) -> LinkBackend:
    if name != "linkd":
        return NetemBackend()
    return LinkdBackend.start(folder, program=program, grain_us=grain_us)


@contextmanager
def rig(
    name: str,
    folder: Path,
    forward: LinkSpec | None = None,
    backward: LinkSpec | None = None,
    program: Path | None = None,
    grain_us: int = 0,
) -> Iterator[Rig]:
    """A rig with address resolution done and the specs in force."""
    with ExitStack() as stack:
        trial = stack.enter_context(Trial())
        with trial.middle.entered():
            backend = start(name, folder, program, grain_us)
            stack.callback(close_inside, trial, backend)
            backend.join(trial.wires[0], LinkSpec(), backward or LinkSpec())
        stream = stack.enter_context(Stream(*trial.hosts[0], trial.address(0, 1)))
        stream.send(1)
        assert stream.receive(5.0, at_most=1), "nothing passes a link without impairments"
        made = Rig(trial, backend, stream)
        if forward:
            made.change(**{name: getattr(forward, name) for name in forward.__dataclass_fields__})
        yield made


def close_inside(trial: Trial, backend: LinkBackend) -> None:
    with trial.middle.entered():
        backend.close()


def tcp_transfer(made: Rig, total_bytes: int, chunk_bytes: int = 1 << 16) -> bytes:
    """Send over TCP from the first host to the second; return what came out."""
    source, target = made.trial.hosts[0]
    with target.entered():
        listener = socket.create_server((made.trial.address(0, 1), 7100))
    with source.entered():
        sender = socket.create_connection(listener.getsockname(), timeout=20)
    receiver, _ = listener.accept()
    receiver.settimeout(20)
    with listener, sender, receiver:
        sender.setblocking(False)
        return _pump(sender, receiver, total_bytes, chunk_bytes)


def _pump(sender: socket.socket, receiver: socket.socket, total: int, chunk: int) -> bytes:
    pattern = bytes(range(256)) * (total // 256 + 1)
    sent, received = 0, bytearray()
    while len(received) < total:
        try:
            sent += sender.send(pattern[sent : min(sent + chunk, total)]) if sent < total else 0
            if sent < total:
                continue
        except BlockingIOError:
            pass
        received += receiver.recv(1 << 20)
    return bytes(received)
