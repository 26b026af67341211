"""The receiving end of a flow: it listens from the beginning and counts what arrives."""

from __future__ import annotations

import socket
import threading
import time

from workloads.errors import WorkloadError
from workloads.traffic.counts import Counts, Tally
from workloads.traffic.datagrams import Arrivals
from workloads.traffic.flows import UDP, FlowEnd

BUFFER_BYTES = 256 * 1024
LOOK_S = 0.2


def open_receiver(end: FlowEnd) -> socket.socket:
    """Listen for a flow; raises WorkloadError when its port cannot be had."""
    kind = socket.SOCK_DGRAM if end.protocol == UDP else socket.SOCK_STREAM
    receiver = socket.socket(socket.AF_INET, kind)
    try:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        receiver.bind((end.address, end.port))
        if end.protocol != UDP:
            receiver.listen(1)
    except OSError as error:
        receiver.close()
        raise WorkloadError(f"flow {end.flow}: port {end.port}: {error.strerror}") from None
    receiver.settimeout(LOOK_S)
    return receiver


def receive(end: FlowEnd, receiver: socket.socket, tally: Tally, over: threading.Event) -> None:
    """Count what arrives of a flow until it ends or all is over."""
    with receiver:
        if end.protocol == UDP:
            _receive_datagrams(end, receiver, tally, over)
            return
        while not over.is_set():
            try:
                connection, _ = receiver.accept()
            except TimeoutError:
                continue
            with connection:
                _receive_stream(connection, tally, over)


def _receive_stream(connection: socket.socket, tally: Tally, over: threading.Event) -> None:
    connection.settimeout(LOOK_S)
    buffer = bytearray(BUFFER_BYTES)
    while not over.is_set():
        try:
            arrived = connection.recv_into(buffer)
        except TimeoutError:
            continue
        except ConnectionResetError:
            return
        if not arrived:
            return
        tally.put(Counts(bytes=tally.counts.bytes + arrived))


def _receive_datagrams(
    end: FlowEnd, receiver: socket.socket, tally: Tally, over: threading.Event
) -> None:
    arrivals = Arrivals(end.number)
    while not over.is_set():
        try:
            datagram = receiver.recv(BUFFER_BYTES)
        except TimeoutError:
            continue
        if arrivals.take(datagram, time.time()):
            tally.put(_counts(arrivals))


def _counts(arrivals: Arrivals) -> Counts:
    return Counts(
        bytes=arrivals.payload_bytes,
        packets=arrivals.datagrams,
        out_of_order=arrivals.out_of_order,
        delay_s=arrivals.delay_s,
        jitter_s=arrivals.jitter_s,
    )
