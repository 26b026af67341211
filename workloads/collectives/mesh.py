"""A TCP connection from each member of a clique to each other: `exchange`, and what others rest on.

Each member sends its payload N - 1 times, once to every other: the naive exchange, which needs
nothing of the network but routes. Members of the other collectives keep a mesh too: they use it
where they disagree and where the network failed, and it tells at once when a member's process ends.

Connections are made by a handshake with a token that only the workers of the job know, through the
notice board. Frames are checked (`frames`).
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Callable, Mapping

import numpy as np

from workloads.collectives.agreement import Statement
from workloads.collectives.board import Board
from workloads.collectives.clique import Clique
from workloads.collectives.frames import Bytes, Frame, FrameError, FrameReader, encode_header
from workloads.errors import CollectiveError, RendezvousError

HELLO = struct.Struct("<I32sI")
HELLO_MAGIC = 0x4F4C4C48
HELLO_LIMIT_S = 5.0
LISTEN_BACKLOG = 256
SO_MAX_PACING_RATE = 47  # of Linux, socket(7); Python's socket module has no name for it
PACING_RATE = struct.Struct("@Q")  # bytes a second

Place = Callable[[int, Statement, int], "Bytes | None"]


class PeerLost(CollectiveError):  # noqa: N818 (it says what happened)
    """A connection of the mesh broke, or nothing came through it in time.

    Attributes:
        ranks: the members at the other ends.
    """

    def __init__(self, text: str, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        super().__init__(text)


class Mesh:
    """The connections of one member."""

    def __init__(
        self, clique: Clique, connections: Mapping[int, socket.socket], limit_s: float
    ) -> None:
        self._clique = clique
        self._connections = dict(connections)
        self._limit_s = limit_s
        self._calls = 0
        self._moved_bytes = 0
        for connection in self._connections.values():
            connection.setblocking(False)

    def share(self, statement: Statement, payload: Bytes, place: Place) -> dict[int, Frame]:
        """Send a frame to every other member and receive one from each.

        All members' frames are read to their ends, even when they disagree, so that the next call
        finds the connections in order.

        Args:
            statement: what this member says.
            payload: what it sends.
            place: given a rank, its statement and the length of its payload, returns where that
                payload goes, or None to pass it over.

        Returns:
            Every member's frame by rank, this one's own included.

        Raises:
            PeerLost: a connection broke, or nothing moved for the time limit.
        """
        self._calls += 1
        header = encode_header(self._calls, statement, len(payload))
        transfers = {
            rank: _Transfer(
                rank, connection, self._calls, [memoryview(header), payload.data], place
            )
            for rank, connection in self._connections.items()
        }
        self._carry_out(transfers)
        frames = {rank: one.reader.frame for rank, one in transfers.items()}
        received = {rank: frame for rank, frame in frames.items() if frame is not None}
        return {**received, self._clique.rank: Frame(statement, payload)}

    def counters(self) -> dict[str, int]:
        """Return calls, and bytes that moved in either direction, frames' headers included."""
        return {"calls": self._calls, "moved_bytes": self._moved_bytes}

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def interrupt(self) -> None:
        """End the connections under whoever waits for them, here and at the other ends."""
        for connection in list(self._connections.values()):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def is_called(self) -> bool:
        """Return whether a member has begun to share something; nothing is read."""
        return any(_has_data(connection) for connection in self._connections.values())

    def broken(self) -> tuple[int, ...]:
        """Return the ranks whose connections have ended, without reading from any."""
        return tuple(rank for rank, one in self._connections.items() if _has_ended(one))

    def _carry_out(self, transfers: Mapping[int, _Transfer]) -> None:
        with selectors.DefaultSelector() as selector:
            for transfer in transfers.values():
                selector.register(transfer.connection, transfer.interest, transfer)
            deadline = time.monotonic() + self._limit_s
            while selector.get_map():
                if self._serve(selector, max(deadline - time.monotonic(), 0.0)):
                    deadline = time.monotonic() + self._limit_s
                elif time.monotonic() >= deadline:
                    self._give_up(transfers)

    def _serve(self, selector: selectors.BaseSelector, limit_s: float) -> int:
        """Wait for connections that are ready and serve them; return how many bytes moved."""
        moved = 0
        for key, events in selector.select(limit_s):
            transfer: _Transfer = key.data
            try:
                moved += transfer.serve(events)
            except FrameError as error:
                name = self._clique.roster.name(transfer.rank)
                raise PeerLost(f"{name}: {error}", (transfer.rank,)) from error
            if not transfer.interest:
                selector.unregister(transfer.connection)
            elif transfer.interest != key.events:
                selector.modify(transfer.connection, transfer.interest, transfer)
        self._moved_bytes += moved
        return moved

    def _give_up(self, transfers: Mapping[int, _Transfer]) -> None:
        silent = tuple(rank for rank, one in transfers.items() if one.reader.frame is None)
        deaf = tuple(rank for rank, one in transfers.items() if one.interest)
        waiting_for = silent or deaf
        raise PeerLost(
            f"nothing came from {self._clique.roster.names(waiting_for)} for {self._limit_s:g} s",
            waiting_for,
        )


class _Transfer:
    """One call's traffic with one peer: what is still to send, and what has come."""

    def __init__(
        self,
        rank: int,
        connection: socket.socket,
        number: int,
        parts: list[memoryview],
        place: Place,
    ) -> None:
        self.rank = rank
        self.connection = connection
        self._unsent = [part for part in parts if len(part)]
        self.reader = FrameReader(connection, number, lambda said, size: place(rank, said, size))

    @property
    def interest(self) -> int:
        """What to wait for: nothing once both directions are done."""
        reading = selectors.EVENT_READ if self.reader.frame is None else 0
        return reading | (selectors.EVENT_WRITE if self._unsent else 0)

    def serve(self, events: int) -> int:
        """Send and receive what can be without waiting; return how many bytes moved."""
        moved = self._send() if events & selectors.EVENT_WRITE else 0
        if events & selectors.EVENT_READ:
            moved += self.reader.read()
        return moved

    def _send(self) -> int:
        moved = 0
        while self._unsent:
            try:
                count = self.connection.send(self._unsent[0])
            except BlockingIOError:
                break
            except OSError as error:
                raise FrameError(error.strerror or str(error)) from error
            moved += count
            rest = self._unsent[0][count:]
            self._unsent[:1] = [rest] if len(rest) else []
        return moved


def place_like(expected: Statement, expected_bytes: int) -> Place:
    """Return a rule for `share`: payloads of one length, or empty ones, of members that agree."""

    def place(rank: int, statement: Statement, payload_bytes: int) -> Bytes | None:
        if statement.call != expected.call or payload_bytes not in (0, expected_bytes):
            return None
        return np.empty(payload_bytes, dtype=np.uint8)

    return place


def open_mesh(
    board: Board,
    clique: Clique,
    addresses: Mapping[int, str],
    label: str,
    limit_s: float,
    pace_mbps: float | None = None,
) -> Mesh:
    """Connect to every other member of a clique.

    Args:
        board: the notice board of the job.
        clique: the members.
        addresses: each rank's IPv4 address on the interface of the collectives.
        label: tells this mesh from others on the board; the same on all members.
        limit_s: the time to connect within, and afterwards the time without any progress.
        pace_mbps: what each connection sends at most, headers counted; without it as TCP will.

    Raises:
        RendezvousError: a member cannot be connected to within the limit; the text names it.
    """
    token = board.write_once(f"mesh/{label}/token", secrets.token_hex(16)).encode()
    with socket.create_server((addresses[clique.rank], 0), backlog=LISTEN_BACKLOG) as listener:
        board.write(f"mesh/{label}/port/{clique.rank}", str(listener.getsockname()[1]))
        meeting = _Meeting(board, clique, addresses, label, token, time.monotonic() + limit_s)
        try:
            meeting.call_lower()
            meeting.answer_higher(listener)
        except RendezvousError:
            for connection in meeting.connections.values():
                connection.close()
            raise
    for connection in meeting.connections.values():
        _pace(connection, pace_mbps)
    return Mesh(clique, meeting.connections, limit_s)


class _Meeting:
    """How a mesh comes to be: each member calls those of lower rank and answers the others."""

    def __init__(
        self,
        board: Board,
        clique: Clique,
        addresses: Mapping[int, str],
        label: str,
        token: bytes,
        deadline: float,
    ) -> None:
        self._board = board
        self._clique = clique
        self._addresses = addresses
        self._label = label
        self._token = token
        self._deadline = deadline
        self.connections: dict[int, socket.socket] = {}

    def call_lower(self) -> None:
        for rank in self._clique.peers:
            if rank < self._clique.rank:
                self.connections[rank] = self._call(rank)

    def answer_higher(self, listener: socket.socket) -> None:
        expected = {rank for rank in self._clique.peers if rank > self._clique.rank}
        while missing := expected - set(self.connections):
            listener.settimeout(self._left_s())
            try:
                connection, _ = listener.accept()
            except OSError as error:
                names = self._clique.roster.names(missing)
                raise RendezvousError(f"{names} did not connect in time") from error
            rank = self._read_hello(connection)
            if rank in missing:
                self.connections[rank] = _prepared(connection)
            else:
                connection.close()

    def _call(self, rank: int) -> socket.socket:
        key = f"mesh/{self._label}/port/{rank}"
        try:
            self._board.await_keys([key], self._left_s())
            where = (self._addresses[rank], int(self._board.read(key)))
            connection = socket.create_connection(where, timeout=self._left_s())
            connection.sendall(HELLO.pack(HELLO_MAGIC, self._token, self._clique.rank))
        except (OSError, RuntimeError) as error:
            name = self._clique.roster.name(rank)
            raise RendezvousError(f"{name} could not be connected to: {error}") from error
        return _prepared(connection)

    def _read_hello(self, connection: socket.socket) -> int | None:
        """Return the rank of whoever connected, or None for a stranger."""
        connection.settimeout(min(self._left_s(), HELLO_LIMIT_S))
        text = b""
        with contextlib.suppress(OSError):
            while len(text) < HELLO.size and (part := connection.recv(HELLO.size - len(text))):
                text += part
        if len(text) < HELLO.size:
            return None
        magic, token, rank = HELLO.unpack(text)
        known = magic == HELLO_MAGIC and secrets.compare_digest(token, self._token)
        return int(rank) if known else None

    def _left_s(self) -> float:
        return max(self._deadline - time.monotonic(), 0.001)


def _prepared(connection: socket.socket) -> socket.socket:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection


def _pace(connection: socket.socket, pace_mbps: float | None) -> None:
    """Have TCP space its segments: windows that leave in bursts overflow queues on a long way."""
    if pace_mbps is not None:
        rate = PACING_RATE.pack(max(1, round(pace_mbps * 1e6 / 8)))
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)


def _has_data(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except OSError:
        return False


def _has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
