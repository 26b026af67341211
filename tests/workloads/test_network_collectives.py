"""The order-free collectives over real sockets: the same bits on all, whatever is lost."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.workloads.loopback_group import (
    Loopback,
    collectives,
    errors,
    means_by_exchange,
    together,
)
from workloads.collectives.network import NetworkCollective
from workloads.innetwork.protocol import Element, Packet, PacketType, encode

KINDS = ["exchange", "multicast", "aggregation", "innetwork"]
SUMMED_BY_ACCELERATORS = ["aggregation", "innetwork"]
MEMBERS = 4
ELEMENTS = 100_001


def numbers(member: int, elements: int = ELEMENTS) -> Tensor:
    """Return a member's numbers; members' sizes differ by powers of ten."""
    generator = torch.Generator().manual_seed(member)
    return torch.randn(elements, generator=generator) * 10.0 ** (member - 2)


def changing(member: int, call: int) -> Tensor:
    """Return numbers of which some blocks become a million times larger or smaller."""
    tensor = numbers(member).clone()
    tensor[256 * call : 256 * (call + 20)] *= 1e6
    tensor[20_000 + 256 * call : 20_256 + 256 * call] *= 1e-6
    return tensor


@pytest.fixture(scope="module", params=KINDS)
def group(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[NetworkCollective]]:
    """The collectives of four members, of each kind in turn."""
    lo = Loopback(tmp_path_factory.mktemp("group"), MEMBERS)
    with collectives(lo, request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def by_exchange(tmp_path_factory: pytest.TempPathFactory) -> list[Tensor]:
    """What the naive exchange makes of three calls in a row."""
    return means_by_exchange(Loopback(tmp_path_factory.mktemp("reference"), MEMBERS), changing, 3)


def test_every_kind_gives_the_bits_of_the_exchange_to_all(
    group: list[NetworkCollective], by_exchange: list[Tensor]
) -> None:
    for call in range(3):
        means = together(MEMBERS, lambda i, c=call: group[i].allreduce(changing(i, c)))
        for mean in means:
            assert torch.equal(mean, by_exchange[call])


def test_the_mean_is_that_of_exact_arithmetic_within_the_bound(
    group: list[NetworkCollective],
) -> None:
    rows = [numbers(i, 4096) for i in range(MEMBERS)]
    mean = together(MEMBERS, lambda i: group[i].allreduce(rows[i]))[0]
    exact = sum(row.double() for row in rows) / MEMBERS
    largest = torch.stack(rows).abs().reshape(MEMBERS, 16, 256).amax(dim=(0, 2))
    bound = 2 * largest.double() * 2.0 ** (2 - 28)  # p = 28 for four members
    error = (mean.double() - exact).abs().reshape(16, 256).amax(1)
    assert (error <= bound + exact.abs().reshape(16, 256).amax(1) * 2.0**-24).all()


def test_integers_are_summed_exactly(group: list[NetworkCollective]) -> None:
    base = torch.arange(-5000, 5000) * 10**14
    sums = together(MEMBERS, lambda i: group[i].sum(base + i))
    assert all(torch.equal(total, base * MEMBERS + 6) for total in sums)


def test_gather_and_broadcast_keep_every_bit(group: list[NetworkCollective]) -> None:
    odd = torch.tensor([float("nan"), -0.0, 1e-45, float("inf")])
    rows = together(MEMBERS, lambda i: group[i].gather(odd + i))
    for gathered in rows:
        assert len(gathered) == MEMBERS
        for i, row in enumerate(gathered):
            assert torch.equal(row.view(torch.int32), (odd + i).view(torch.int32))
    sent = torch.arange(9999, dtype=torch.uint8)
    got = together(MEMBERS, lambda i: group[i].broadcast(sent if i == 2 else sent * 0, 2))
    assert all(torch.equal(tensor, sent) for tensor in got)


def test_an_empty_tensor_is_its_own_mean(group: list[NetworkCollective]) -> None:
    means = together(MEMBERS, lambda i: group[i].allreduce(torch.empty(0, 3)))
    assert all(mean.shape == (0, 3) for mean in means)


def test_other_types_are_summed_too(group: list[NetworkCollective]) -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.complex64):
        sums = together(
            MEMBERS, lambda i, d=dtype: group[i].sum(torch.full((300,), i + 1, dtype=d))
        )
        assert all((total == 10).all() and total.dtype == dtype for total in sums)


def test_shapes_that_differ_are_named_to_all(group: list[NetworkCollective]) -> None:
    said = errors(MEMBERS, lambda i: group[i].allreduce(torch.ones(60_000 if i == 2 else 5)))
    want = (
        "LON (rank 2) calls for mean of float32[60000] where AMS (rank 0) calls for mean of "
        "float32[5]"
    )
    assert said == [want] * MEMBERS


def test_tensors_of_other_names_are_other_calls(group: list[NetworkCollective]) -> None:
    def call(i: int) -> None:
        group[i].allreduce(torch.ones(5), name="layer 4" if i == 3 else "layer 3")

    said = errors(MEMBERS, call)
    assert len(set(said)) == 1
    assert "mean of float32[5] (layer 4) where AMS (rank 0) calls for" in said[0]


def test_each_name_has_predictions_of_its_own(group: list[NetworkCollective]) -> None:
    """A large layer and a small one of its shape take turns: neither is sent twice for it."""

    def call(i: int, name: str, size: float) -> Tensor:
        return group[i].allreduce(numbers(i, 60_000) * size, name=name)

    def sent() -> int:
        return sum(one.counters().get("sent", 0) for one in group)

    for name, size in (("large", 1e6), ("small", 1e-6)):
        together(MEMBERS, lambda i, n=name, s=size: call(i, n, s))
    before = sent()
    together(MEMBERS, lambda i: call(i, "large", 1e6))
    one_call = sent() - before
    for name, size in (("small", 1e-6), ("large", 1e6)):
        before = sent()
        together(MEMBERS, lambda i, n=name, s=size: call(i, n, s))
        assert sent() - before == one_call


def test_a_value_that_is_not_finite_is_named_to_all(group: list[NetworkCollective]) -> None:
    def call(i: int) -> None:
        group[i].allreduce(torch.tensor([1.0, float("inf") if i == 1 else 2.0]), name="layer 3")

    want = "FRA (rank 1): layer 3 has 1 of 2 values that are not finite, the first at index 1 (inf)"
    assert errors(MEMBERS, call) == [want] * MEMBERS


def test_after_an_error_the_next_call_is_right(group: list[NetworkCollective]) -> None:
    errors(MEMBERS, lambda i: group[i].sum(torch.ones(5 + i)))
    assert all((t == 4).all() for t in together(MEMBERS, lambda i: group[i].sum(torch.ones(7))))


def test_64_bits_give_a_smaller_error(tmp_path: Path) -> None:
    rows = [numbers(i, 2048) for i in range(2)]
    lo = Loopback(tmp_path, 2)
    with collectives(lo, "innetwork", wide=True) as wide:
        mean = together(2, lambda i: wide[i].allreduce(rows[i]))[0]
    exact = (rows[0].double() + rows[1].double()) / 2
    assert torch.equal(mean, exact.float())


@pytest.mark.parametrize("kind", SUMMED_BY_ACCELERATORS)
def test_loss_and_duplication_at_every_accelerator_change_no_bit(
    tmp_path: Path, kind: str, by_exchange: list[Tensor]
) -> None:
    lo = Loopback(tmp_path, MEMBERS)
    with collectives(lo, kind) as opened:
        for box in lo.accelerators.values():
            box.inject("in", loss_pct=3, duplicate_pct=3, seed=5)
            box.inject("out", loss_pct=3, duplicate_pct=3, seed=6)
        for call in range(3):
            means = together(MEMBERS, lambda i, c=call: opened[i].allreduce(changing(i, c)))
            assert all(torch.equal(mean, by_exchange[call]) for mean in means)
        repeats = sum(one.counters()["repeats"] for one in opened)
    assert repeats > 0


@pytest.mark.parametrize("kind", SUMMED_BY_ACCELERATORS)
def test_accelerators_that_start_anew_in_mid_round_change_no_bit(tmp_path: Path, kind: str) -> None:
    lo = Loopback(tmp_path, MEMBERS)
    with collectives(lo, kind, rate_mbps=20) as opened:
        together(MEMBERS, lambda i: opened[i].allreduce(numbers(i)))
        want = together(MEMBERS, lambda i: opened[i].allreduce(numbers(i)))[0]

        def restart() -> None:
            time.sleep(0.08)  # of the 160 ms that the message takes at this rate
            for box in lo.accelerators.values():
                box.restart()

        thread = threading.Thread(target=restart)
        thread.start()
        means = together(MEMBERS, lambda i: opened[i].allreduce(numbers(i)))
        thread.join()
    assert all(torch.equal(mean, want) for mean in means)


@pytest.mark.parametrize("kind", SUMMED_BY_ACCELERATORS)
def test_members_fail_over_when_an_accelerator_stays_dead(tmp_path: Path, kind: str) -> None:
    lo = Loopback(tmp_path, MEMBERS)
    with collectives(lo, kind, rate_mbps=20, stall_s=0.4) as opened:
        together(MEMBERS, lambda i: opened[i].allreduce(numbers(i)))
        want = together(MEMBERS, lambda i: opened[i].allreduce(numbers(i)))[0]
        killer = threading.Timer(0.05, lo.accelerators["box0"].kill)
        killer.start()
        for _ in range(2):
            means = together(MEMBERS, lambda i: opened[i].allreduce(numbers(i)))
            assert all(torch.equal(mean, want) for mean in means)
        killer.join()
        assert [one.counters()["failed_over"] for one in opened] == [1] * MEMBERS


def test_members_that_come_late_are_waited_for_without_fail_over(tmp_path: Path) -> None:
    lo = Loopback(tmp_path, MEMBERS)
    with collectives(lo, "innetwork", stall_s=0.2) as opened:

        def call(i: int) -> Tensor:
            time.sleep(0.3 * i)
            return opened[i].sum(torch.ones(3000))

        assert all((total == 4).all() for total in together(MEMBERS, call))
        assert [one.counters()["failed_over"] for one in opened] == [0] * MEMBERS


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_leaves_is_named_to_the_others(tmp_path: Path, kind: str) -> None:
    lo = Loopback(tmp_path, MEMBERS)
    with collectives(lo, kind) as opened:

        def call(i: int) -> None:
            if i == 3:
                time.sleep(0.2)
                opened[3].close()
                raise RuntimeError("left")
            opened[i].allreduce(numbers(i))

        said = errors(MEMBERS, call)
    assert [words.partition(":")[0] for words in said] == ["NYC (rank 3)"] * 3 + ["left"]


def test_a_member_that_never_comes_is_named_within_the_limit(tmp_path: Path) -> None:
    lo = Loopback(tmp_path, 3)
    with collectives(lo, "exchange", limit_s=0.5) as opened:

        def call(i: int) -> None:
            if i != 1:
                opened[i].allreduce(torch.ones(3))
            raise RuntimeError("stayed away")

        said = errors(3, call)
    assert said[0] == said[2] == "nothing came from FRA (rank 1) for 0.5 s"


def test_strange_packets_are_counted_and_change_nothing(tmp_path: Path) -> None:
    lo, other = Loopback(tmp_path, 2), Loopback(tmp_path, 2)
    key = 0x1234567
    stale = encode(Packet(PacketType.RESULT, other.job, 0, 0, max_area=b"\0" * 8), key)
    forged = encode(Packet(PacketType.RESULT, lo.job, 0, 0, max_area=b"\0" * 8), key + 1)
    with collectives(lo, "innetwork") as opened, socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.bind((lo.accelerator(0).address, 0))
        target = (lo.member(0).address, lo.member(0).port)
        for data in (stale, forged, b"", b"nonsense", forged[:70], forged + b"\0" * 8):
            sender.sendto(data, target)
        assert all((t == 2).all() for t in together(2, lambda i: opened[i].sum(torch.ones(500))))
        counted = opened[0].counters()
    assert (counted["foreign"], counted["forged"], counted["malformed"]) == (1, 1, 4)


def test_a_sum_of_fewer_members_than_there_are_is_refused(tmp_path: Path) -> None:
    lo = Loopback(tmp_path, 2)
    junk = Packet(
        PacketType.RESULT, lo.job, 0, 1, element=Element.INT64, leaves=1, sum_area=b"\7" * 4000
    )
    with collectives(lo, "innetwork") as opened, socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.bind((lo.accelerator(0).address, 0))
        sender.sendto(encode(junk, 0x1234567), (lo.member(0).address, lo.member(0).port))
        ones = torch.ones(500, dtype=torch.int64)  # sequence 0 is the guard, 1 the sum
        assert all((t == 2).all() for t in together(2, lambda i: opened[i].sum(ones)))
        assert opened[0].counters()["conflicts"] == 1


def test_cliques_work_side_by_side(tmp_path: Path) -> None:
    groups = [Loopback(tmp_path / str(i), 2) for i in range(2)]
    for lo in groups:
        lo.folder.mkdir()
    with collectives(groups[0], "innetwork") as one, collectives(groups[1], "aggregation") as two:
        pairs = [*one, *two]
        for call in range(1, 4):
            rows = [torch.full((50_000,), float(call * (1 + i))) for i in range(4)]
            sums = together(4, lambda i, r=rows: pairs[i].sum(r[i]))
            assert all((total == 3 * call).all() for total in sums[:2])
            assert all((total == 7 * call).all() for total in sums[2:])
