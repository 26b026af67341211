"""What a link does to real frames, the same for every back-end that works on this machine.

The bounds allow for a machine that is busy with other things; `bench/links.py` measures how close
links come on a quiet one. Under software emulation of a processor, where one instruction takes a
hundred times as long, `ATOLL_TIMING_SLACK` widens the bounds that are times.
"""

import math
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import pytest

from testbed.links.probe import probe
from testbed.links.spec import GilbertElliott, LinkSpec
from testbed.links.stream import Arrival, wire_bytes
from tests.links.rig import FORWARD, Rig, rig, tcp_transfer

pytestmark = [pytest.mark.root, pytest.mark.timing]
SLACK = float(os.environ.get("ATOLL_TIMING_SLACK", "1"))


@pytest.fixture(scope="module", params=["linkd", "netem"])
def backend_name(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not probe()[name]:
        pytest.skip(f"{name} does not work on this machine")
    return name


@pytest.fixture(scope="module")
def link(backend_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(backend_name, tmp_path_factory.mktemp(backend_name)) as made:
        yield made


@pytest.fixture
def plain(link: Rig) -> Rig:
    """The link with every impairment taken away again: zero is a value."""
    fields = {name: getattr(LinkSpec(), name) for name in LinkSpec.__dataclass_fields__}
    link.change(**fields)
    link.stream.receive(0.05)
    return link


def dropped(link: Rig, cause: str) -> int:
    return link.counters().dropped[cause]


@pytest.mark.parametrize("one_way_delay_ms", [1.0, 20.0, 150.0])
def test_the_delay_is_the_one_asked_for_and_never_less(plain: Rig, one_way_delay_ms: float) -> None:
    plain.change(one_way_delay_ms=one_way_delay_ms)
    errors = [arrival.one_way_ms - one_way_delay_ms for arrival in plain.carry(200, 100, 0.002)]
    assert len(errors) == 200
    assert min(errors) > -0.05
    assert median(errors) < 1.0 * SLACK


def test_each_direction_has_its_own_delay(backend_name: str, tmp_path: Path) -> None:
    forward, backward = LinkSpec(one_way_delay_ms=5), LinkSpec(one_way_delay_ms=60)
    with rig(backend_name, tmp_path, forward, backward) as made:
        assert 5 <= median(a.one_way_ms for a in made.carry(20, 100, 0.01)) < 5 + 20 * SLACK
        assert made.backend.spec(FORWARD.reverse).one_way_delay_ms == 60


@pytest.mark.parametrize(("rate_mbps", "frames"), [(0.064, 40), (1, 200), (10, 1500), (100, 8000)])
def test_a_full_queue_leaves_at_the_rate(plain: Rig, rate_mbps: float, frames: int) -> None:
    # A backlog is sent at once; the kernel's stamps of its first and last frame tell the rate.
    size = 100 if rate_mbps < 1 else 1000
    if SLACK > 1 and rate_mbps > 1:
        pytest.skip("an emulated processor does not send fast enough to fill the queue")
    plain.change(rate_mbps=rate_mbps, mtu_bytes=1500, queue_ms=2000)
    arrivals = plain.carry(frames, size)
    assert len(arrivals) == frames
    bits = (len(arrivals) - 1) * wire_bytes(size) * 8
    achieved = bits * 1000 / (arrivals[-1].received_ns - arrivals[0].received_ns)
    assert achieved == pytest.approx(rate_mbps, rel=0.01 * max(1, SLACK / 5))


def test_a_frame_that_would_wait_longer_than_the_queue_is_dropped(plain: Rig) -> None:
    # 1,042 wire bytes at 1 Mbit/s take 8.336 ms: 50 ms hold five whole, and one more for every
    # 8.336 ms that sending takes.
    plain.change(rate_mbps=1, mtu_bytes=1500, queue_ms=50)
    before, start = dropped(plain, "queue"), time.monotonic()
    first = plain.stream.send(40, 1000)
    sending_ms = (time.monotonic() - start) * 1000
    numbers = [arrival.number - first for arrival in plain.stream.receive(0.5)]
    assert numbers[:5] == [0, 1, 2, 3, 4]
    assert len(numbers) <= 6 + sending_ms / 8.336
    assert dropped(plain, "queue") - before == 40 - len(numbers)


@pytest.mark.parametrize("loss_pct", [0.1, 1.0, 5.0])
def test_loss_is_inside_its_99_percent_interval(plain: Rig, loss_pct: float) -> None:
    plain.change(loss_pct=loss_pct)
    before = dropped(plain, "loss")
    received = len(carried_in_parts(plain, 20_000))
    chance = loss_pct / 100
    half_width = 2.576 * math.sqrt(20_000 * chance * (1 - chance))
    assert abs(20_000 - received - 20_000 * chance) <= half_width
    # An address that is asked for meanwhile is a frame too, and may be lost like any other.
    assert 0 <= dropped(plain, "loss") - before - (20_000 - received) <= 3


def carried_in_parts(link: Rig, count: int) -> list[Arrival]:
    """So many frames that the receiver must take some before the last is sent."""
    arrivals: list[Arrival] = []
    for _ in range(count // 1000):
        link.stream.send(1000)
        arrivals += link.stream.receive(0.05 * max(1, SLACK / 5))
    # A busy machine may pause for longer than that between two frames.
    return arrivals + link.stream.receive(1.0 * max(1, SLACK / 5))


def test_losses_come_in_bursts_of_the_chains_length(plain: Rig) -> None:
    # Leave at 25 %: bursts of 4 frames; enter at 2 %: one frame in 13.5 is lost.
    plain.change(burst_loss=GilbertElliott(p_enter_pct=2, p_leave_pct=25))
    numbers = [arrival.number for arrival in carried_in_parts(plain, 20_000)]
    gaps = [after - before - 1 for before, after in pairwise(numbers) if after - before > 1]
    assert mean(gaps) == pytest.approx(4.0, rel=0.15)
    assert sum(gaps) / 20_000 == pytest.approx(1 / 13.5, rel=0.2)


def test_jitter_spreads_the_delay_and_keeps_the_order(plain: Rig) -> None:
    plain.change(one_way_delay_ms=30, jitter_ms=10)
    arrivals = plain.carry(300, 100, 0.003)
    numbers = [arrival.number for arrival in arrivals]
    delays = [arrival.one_way_ms for arrival in arrivals]
    assert numbers == sorted(numbers)
    assert len(numbers) == 300
    assert min(delays) > 20 - 0.05
    assert max(delays) - min(delays) > 10


def test_jitter_reorders_when_asked(plain: Rig) -> None:
    plain.change(one_way_delay_ms=30, jitter_ms=10, reorder=True)
    arrivals = plain.carry(300, 100, 0.001)
    numbers = [arrival.number for arrival in arrivals]
    assert len(numbers) == 300
    assert numbers != sorted(numbers)


def test_frames_are_duplicated(plain: Rig) -> None:
    plain.change(duplicate_pct=20)
    received = len(plain.carry(1000))
    assert received - 1000 == pytest.approx(200, abs=2.576 * math.sqrt(1000 * 0.2 * 0.8))


def test_a_corrupted_frame_does_not_pass_for_a_good_one(plain: Rig) -> None:
    # One bit of 142 bytes: wherever it falls, an address, a length or a checksum is wrong, but for
    # the few fields that no checksum covers (addresses of Ethernet, 12 bytes of 142).
    plain.change(corrupt_pct=50)
    first = plain.stream.send(1000)
    numbers = [arrival.number for arrival in plain.stream.receive(0.5)]
    assert 450 <= len(numbers) <= 600
    assert set(numbers) <= set(range(first, first + 1000))


def test_a_change_loses_no_queued_frame(plain: Rig) -> None:
    plain.change(rate_mbps=1, one_way_delay_ms=100, mtu_bytes=1500, queue_ms=3000)
    plain.stream.send(100, 1000)
    plain.change(rate_mbps=10)
    plain.change(one_way_delay_ms=0)
    plain.change(queue_ms=20)
    plain.change(rate_mbps=None)
    numbers = [arrival.number for arrival in plain.stream.receive(1.0)]
    assert len(numbers) == 100
    assert numbers == sorted(numbers)


def test_counters_add_up(plain: Rig) -> None:
    before = plain.counters()
    plain.change(loss_pct=10, rate_mbps=1, mtu_bytes=1500, queue_ms=100)
    arrivals = plain.carry(100, 1000)
    after = plain.counters()
    gone = sum(after.dropped.values()) - sum(before.dropped.values())
    assert after.frames_in - before.frames_in == 100
    assert after.bytes_in - before.bytes_in == 100 * wire_bytes(1000)
    assert after.frames_out - before.frames_out == len(arrivals)
    assert after.bytes_out - before.bytes_out == len(arrivals) * wire_bytes(1000)
    assert gone == 100 - len(arrivals)
    assert after.queued_frames == 0
    assert after.unasked_drops == before.unasked_drops


def test_hosts_send_nothing_by_themselves(backend_name: str, tmp_path: Path) -> None:
    # Address resolution and IPv6 would be frames that no count of datagrams explains.
    with rig(backend_name, tmp_path) as made:
        sent_by_the_rig = 1
        made.carry(10)
        assert made.counters().frames_in == sent_by_the_rig + 10
        assert made.counters(FORWARD.reverse).frames_in == 0


def test_tcp_with_segmentation_offload_comes_through_whole(plain: Rig) -> None:
    plain.change(rate_mbps=100, one_way_delay_ms=2)
    data = tcp_transfer(plain, 2_000_000)
    assert data == (bytes(range(256)) * 7813)[:2_000_000]


def test_a_link_that_is_closed_carries_nothing(backend_name: str, tmp_path: Path) -> None:
    with rig(backend_name, tmp_path) as made:
        with made.trial.middle.entered():
            made.backend.close()
        assert made.carry(10) == []
