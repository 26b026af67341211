"""Messages in parts: nothing is left out, and the bits are those of a message in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributed import HashStore

from tests.workloads.loopback_group import (
    LIMIT_S,
    SITES,
    WINDOW,
    Loopback,
    errors,
    group_of,
    means_by_exchange,
    open_accelerators,
    together,
)
from workloads.collectives.board import Board
from workloads.collectives.clique import Clique
from workloads.collectives.kinds import open_transport
from workloads.collectives.mesh import open_mesh
from workloads.collectives.network import NetworkCollective
from workloads.collectives.parted import Parted, block_cuts, of_blocks
from workloads.collectives.roster import Roster
from workloads.collectives.transport import Transport

MEMBERS = 3
ROUNDING = 1e-9  # of sums of shares, times thousands of blocks
SHARES = (0.5, 0.125, 0.375)


@settings(max_examples=200, deadline=None)
@given(blocks=st.integers(0, 5000), weights=st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_blocks_are_carried_once_and_each_part_within_one_of_its_share(
    blocks: int, weights: list[int]
) -> None:
    shares = [weight / sum(weights) for weight in weights]
    cuts = block_cuts(blocks, shares)
    assert [number for cut in cuts for number in range(blocks)[cut]] == list(range(blocks))
    for cut, share in zip(cuts, shares, strict=True):
        assert abs((cut.stop - cut.start) - share * blocks) <= 1 + ROUNDING
    for one in range(len(cuts)):  # a tree of several parts, one after the other, is as near
        for other in range(one, len(cuts)):
            carried = cuts[other].stop - cuts[one].start
            assert abs(carried - sum(shares[one : other + 1]) * blocks) <= 1 + ROUNDING


@settings(max_examples=100, deadline=None)
@given(length=st.integers(0, 3000), each=st.integers(1, 300), weights=st.lists(st.integers(1, 9)))
def test_a_last_block_that_is_not_full_is_carried_too(
    length: int, each: int, weights: list[int]
) -> None:
    shares = [weight / sum(weights) for weight in weights] or [1.0]
    cuts = block_cuts(-(-length // each), shares)
    places = [place for cut in cuts for place in range(length)[of_blocks(cut, each, length)]]
    assert places == list(range(length))


@contextmanager
def parted(kind: str, folder: Path, shares: tuple[float, ...]) -> Iterator[list[NetworkCollective]]:
    """Open a collective whose messages go in parts, each over trees of its own."""
    board, roster = Board(HashStore()), Roster(MEMBERS, SITES[:MEMBERS])
    with ExitStack() as stack:
        los = [Loopback(folder / f"{n}", MEMBERS) for n in range(len(shares))]
        for lo in los:
            lo.folder.mkdir()
            if kind != "multicast":
                open_accelerators(lo, group_of(lo, kind, 0, 2000.0, WINDOW), stack)

        def open_part(lo: Loopback, me: int) -> Transport:
            clique, where = Clique.of_all(me, roster), {i: lo.member(i).address for i in range(3)}
            mesh = open_mesh(board, clique, where, f"{kind}/{los.index(lo)}", LIMIT_S)
            group = group_of(lo, kind, me, 2000.0, WINDOW)
            return open_transport(clique, mesh, group, LIMIT_S, LIMIT_S)

        def open_one(me: int) -> NetworkCollective:
            whole = Parted([open_part(lo, me) for lo in los], shares)
            return NetworkCollective(Clique.of_all(me, roster), whole, lambda symptom: symptom)

        opened = together(MEMBERS, open_one)
        for one in opened:
            stack.callback(one.close)
        yield opened


@pytest.fixture(scope="module", params=["multicast", "aggregation", "innetwork"])
def group(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[NetworkCollective]]:
    """Three members of each kind in turn."""
    with parted(request.param, tmp_path_factory.mktemp("parts"), SHARES) as opened:
        yield opened


def changing(member: int, call: int) -> Tensor:
    """Return numbers of which some blocks become larger or smaller from one call to the next."""
    tensor = torch.randn(50_001, generator=torch.Generator().manual_seed(member))
    tensor[256 * call : 256 * (call + 99)] *= 1e6
    tensor[30_000 + 256 * call : 30_512 + 256 * call] *= 1e-6
    return tensor


@pytest.fixture(scope="module")
def by_exchange(tmp_path_factory: pytest.TempPathFactory) -> list[Tensor]:
    """What the naive exchange makes of three calls in a row."""
    return means_by_exchange(Loopback(tmp_path_factory.mktemp("whole"), MEMBERS), changing, 3)


def test_means_have_the_bits_of_a_message_in_one_piece(
    group: list[NetworkCollective], by_exchange: list[Tensor]
) -> None:
    for call in range(3):
        for mean in together(MEMBERS, lambda i, c=call: group[i].allreduce(changing(i, c))):
            assert torch.equal(mean, by_exchange[call])


def test_integers_rows_and_copies_are_put_together_again(group: list[NetworkCollective]) -> None:
    base = torch.arange(-5000, 5000) * 10**14
    sums = together(MEMBERS, lambda i: group[i].sum(base + i))
    assert all(torch.equal(total, base * MEMBERS + 3) for total in sums)
    sent = torch.arange(9999, dtype=torch.uint8)
    for rows in together(MEMBERS, lambda i: group[i].gather(sent + i)):
        assert all(torch.equal(row, sent + i) for i, row in enumerate(rows))
    for copy in together(MEMBERS, lambda i: group[i].broadcast(sent if i == 2 else sent * 0, 2)):
        assert torch.equal(copy, sent)


def test_a_message_of_nothing_or_of_one_number_passes_all_parts(
    group: list[NetworkCollective],
) -> None:
    together(MEMBERS, lambda i: group[i].barrier())
    means = together(MEMBERS, lambda i: group[i].allreduce(torch.full((1,), float(i))))
    assert all(torch.equal(mean, torch.ones(1)) for mean in means)
    empty = together(MEMBERS, lambda i: group[i].allreduce(torch.empty(0, 3)))
    assert all(mean.shape == (0, 3) for mean in empty)


def test_members_who_disagree_are_named_and_can_go_on(group: list[NetworkCollective]) -> None:
    said = errors(MEMBERS, lambda i: group[i].allreduce(torch.ones(60_000 if i == 2 else 5)))
    want = "LON (rank 2) calls for mean of float32[60000] where AMS (rank 0) calls for mean of "
    assert all(line == f"{want}float32[5]" for line in said)
    said = errors(
        MEMBERS, lambda i: group[i].allreduce(torch.full((4000,), float("nan") if i else 1.0))
    )
    assert all("not finite" in line for line in said)
    means = together(MEMBERS, lambda i: group[i].allreduce(torch.full((9000,), float(i))))
    assert all(torch.equal(mean, torch.ones(9000)) for mean in means)


def test_counters_are_those_of_all_parts(group: list[NetworkCollective]) -> None:
    before = group[0].counters()
    together(MEMBERS, lambda i: group[i].allreduce(torch.ones(50_000), name="counted"))
    after = group[0].counters()
    packets = 50_000 * 4 / 8904
    assert after["sent"] - before["sent"] >= packets
    assert after["failed_over"] == after["forged"] == after["foreign"] == 0
