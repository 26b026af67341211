"""Frames between members: what is none is refused, and what does not fit is passed over."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest
from torch.distributed import HashStore

from tests.workloads.loopback_group import together
from workloads.collectives.agreement import Statement
from workloads.collectives.board import Board
from workloads.collectives.clique import Clique
from workloads.collectives.frames import HEADER, FrameError, FrameReader, encode_header
from workloads.collectives.mesh import Mesh, open_mesh, place_like
from workloads.collectives.roster import Roster
from workloads.errors import UsageError

Pair = tuple[socket.socket, socket.socket]
SAID = Statement("sum of float32[2]")


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = socket.socketpair()
    other.setblocking(False)
    with one, other:
        yield one, other


def reader(connection: socket.socket, number: int = 1) -> FrameReader:
    return FrameReader(connection, number, lambda said, size: np.empty(size, dtype=np.uint8))


def test_a_frame_is_read_piece_by_piece(pair: Pair) -> None:
    sender, receiver = pair
    one = reader(receiver)
    for byte in encode_header(1, SAID, 3) + b"abc":
        sender.sendall(bytes([byte]))
        one.read()
    assert one.frame is not None
    assert one.frame.statement == SAID
    assert one.frame.payload is not None
    assert one.frame.payload.tobytes() == b"abc"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.pack(1, 1, 0, 0, 0, 0), "not a frame"),
        (HEADER.pack(0x4C4C5441, 2, 0, 0, 0, 0), "a frame of call 2 came during call 1"),
        (HEADER.pack(0x4C4C5441, 1, 5000, 0, 0, 0), "too long"),
        (HEADER.pack(0x4C4C5441, 1, 0, 0, 0, 2**50), "too long"),
    ],
)
def test_what_is_no_frame_is_refused_before_anything_is_kept(
    pair: Pair, header: bytes, message: str
) -> None:
    sender, receiver = pair
    sender.sendall(header)
    with pytest.raises(FrameError, match=message):
        reader(receiver).read()


def test_a_closed_connection_is_told(pair: Pair) -> None:
    pair[0].close()
    with pytest.raises(FrameError, match="connection closed"):
        reader(pair[1]).read()


def meshes(members: int, pace_mbps: float | None = None) -> list[Mesh]:
    board, roster = Board(HashStore()), Roster(members)
    where = dict.fromkeys(range(members), "127.0.0.1")
    return together(
        members,
        lambda i: open_mesh(board, Clique.of_all(i, roster), where, "test", 10.0, pace_mbps),
    )


def test_large_payloads_cross_without_a_deadlock_and_in_order() -> None:
    opened = meshes(3)
    payloads = [np.full(5_000_000, i, dtype=np.uint8) for i in range(3)]
    rule = place_like(SAID, 5_000_000)
    for _ in range(2):
        frames = together(3, lambda i: opened[i].share(SAID, payloads[i], rule))
        for received in frames:
            for rank, frame in received.items():
                assert frame.payload is not None
                assert (frame.payload == rank).all()
    for one in opened:
        one.close()


def test_paced_connections_take_the_time_that_their_pace_asks_for() -> None:
    opened = meshes(2, pace_mbps=16.0)
    payload = np.zeros(1_000_000, dtype=np.uint8)  # half a second
    began = time.monotonic()
    together(2, lambda i: opened[i].share(SAID, payload, place_like(SAID, len(payload))))
    assert time.monotonic() - began > 0.2  # the first window, a third of it here, goes at once
    for one in opened:
        one.close()


def test_payloads_of_members_that_disagree_are_passed_over() -> None:
    opened = meshes(2)
    said = [SAID, Statement("sum of float32[90000]")]
    payloads = [np.zeros(8, dtype=np.uint8), np.zeros(360_000, dtype=np.uint8)]
    for number in (0, 1):
        frames = together(
            2,
            lambda i, n=number: opened[i].share(
                said[i * (1 - n)], payloads[0 if n else i], place_like(said[i * (1 - n)], 8)
            ),
        )
        payload = frames[0][1].payload
        assert (payload is None) == (number == 0)
    for one in opened:
        one.close()


def test_a_stranger_that_connects_is_sent_away() -> None:
    board, roster = Board(HashStore()), Roster(2)
    where = dict.fromkeys(range(2), "127.0.0.1")

    def member(i: int) -> Mesh | None:
        if i == 2:
            board.await_keys(["mesh/test/port/0"], 10)
            with socket.create_connection(
                ("127.0.0.1", int(board.read("mesh/test/port/0")))
            ) as stranger:
                stranger.sendall(b"x" * 40)
                assert stranger.recv(1) == b""
            return None
        if i == 1:
            board.await_keys(["stranger/left"], 10)
        return open_mesh(board, Clique.of_all(i, roster), where, "test", 10.0)

    def watched(i: int) -> Mesh | None:
        opened = member(i)
        if i == 2:
            board.write("stranger/left", "yes")
        return opened

    opened = [one for one in together(3, watched) if one is not None]
    assert [sorted(mesh._connections) for mesh in opened] == [[1], [0]]
    for one in opened:
        one.close()


@pytest.mark.parametrize("ranks", [(1, 2), (2, 0), (0, 0, 1)])
def test_a_clique_that_is_none_is_refused(ranks: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="give distinct ranks in ascending order"):
        Clique(ranks, 0, Roster(3))
