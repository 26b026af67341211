"""The exact words for `tc`, by hand arithmetic."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.links.backend import Wire
from testbed.links.netem_backend import by_interface, complaint, lane_counters
from testbed.links.netem_plan import (
    change_commands,
    join_commands,
    netem_limit,
    netem_words,
    part_commands,
    tbf_words,
)
from testbed.links.registry import Lane
from testbed.links.spec import GilbertElliott, LinkSpec
from topologies.model import Direction

WIRE = Wire(0, "w0a", "w0b", Direction("NYC", "LON"))


def test_a_direction_is_shaped_at_the_target_before_the_source_feeds_it() -> None:
    # 100 Mbit/s: 1 ms is 12,500 bytes, 91.2 ms of queue 1,140,000 bytes;
    # netem holds 45.6 + 91.2 ms = 1,710,000 bytes = 26,719 frames of 64.
    lane = Lane(WIRE, True, LinkSpec(rate_mbps=100, one_way_delay_ms=45.6))
    assert join_commands(lane) == [
        "qdisc add dev w0b root handle 1: netem limit 26719 delay 45600.000us 0.000us "
        "loss random 0% duplicate 0% corrupt 0% rate 0bit",
        "qdisc add dev w0b parent 1:1 handle 10: tbf rate 100000000bit burst 12500b limit 1140000b",
        "qdisc add dev w0a ingress",
        "filter add dev w0a parent ffff: protocol all u32 match u32 0 0 "
        "action mirred egress redirect dev w0b",
    ]


def test_the_backward_direction_runs_the_other_way() -> None:
    commands = join_commands(Lane(WIRE, False, LinkSpec()))
    assert commands[0].startswith("qdisc add dev w0a root handle 1: netem ")
    assert commands[1:] == [
        "qdisc add dev w0b ingress",
        "filter add dev w0b parent ffff: protocol all u32 match u32 0 0 "
        "action mirred egress redirect dev w0a",
    ]


@pytest.mark.parametrize(
    ("rate_mbps", "mtu_bytes", "words"),
    [
        (0.064, 1500, "tbf rate 64000bit burst 1518b limit 15140b"),  # one frame; ten frames
        (1, 1500, "tbf rate 1000000bit burst 1518b limit 15140b"),
        (1000, 9000, "tbf rate 1000000000bit burst 125000b limit 6250000b"),
        (10_000, 9000, "tbf rate 10000000000bit burst 1250000b limit 62500000b"),
    ],
)
def test_burst_and_limit_follow_from_the_rate(
    rate_mbps: float | None, mtu_bytes: int, words: str
) -> None:
    assert tbf_words(LinkSpec(rate_mbps=rate_mbps, mtu_bytes=mtu_bytes)) == words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"jitter_ms": 2.5}, "delay 20000.000us 2500.000us"),
        ({"jitter_ms": 2.5}, "rate 1000000000000bit"),  # keeps the order
        ({"jitter_ms": 2.5, "reorder": True}, "rate 0bit"),
        ({"loss_pct": 0.1}, "loss random 0.1%"),
        ({"loss_pct": 1e-7}, "loss random 0.0000001%"),
        ({"burst_loss": GilbertElliott(1, 25)}, "loss gemodel 1% 25% 100% 0%"),
        ({"burst_loss": GilbertElliott(1, 25, 80, 0.5)}, "loss gemodel 1% 25% 80% 0.5%"),
        ({"duplicate_pct": 100, "corrupt_pct": 10}, "duplicate 100% corrupt 10%"),
    ],
)
def test_every_impairment_has_its_words(fields: dict[str, Any], words: str) -> None:
    assert f" {words}" in netem_words(LinkSpec(one_way_delay_ms=20, **fields))


@given(
    rate_mbps=st.floats(0.064, 10_000),
    one_way_delay_ms=st.floats(0, 1000),
    queue_ms=st.floats(2000, 60_000),
)
def test_netem_never_drops_before_the_queue_bound_does(
    rate_mbps: float, one_way_delay_ms: float, queue_ms: float
) -> None:
    spec = LinkSpec(rate_mbps, one_way_delay_ms, queue_ms=queue_ms)
    smallest_frame_ms = 64 * 8 / (rate_mbps * 1000)
    assert netem_limit(spec) >= (one_way_delay_ms + queue_ms) / smallest_frame_ms - 1e-6


def test_a_change_names_everything_again() -> None:
    assert change_commands("w0b", LinkSpec(rate_mbps=1, mtu_bytes=1500), has_tbf=True) == [
        "qdisc change dev w0b root handle 1: netem limit 1000 delay 0.000us 0.000us "
        "loss random 0% duplicate 0% corrupt 0% rate 0bit",
        "qdisc change dev w0b parent 1:1 handle 10: tbf rate 1000000bit burst 1518b limit 15140b",
    ]


def test_a_first_rate_adds_the_shaper() -> None:
    commands = change_commands("w0b", LinkSpec(rate_mbps=1), has_tbf=False)
    assert commands[1].startswith("qdisc add dev w0b parent 1:1 handle 10: tbf rate 1000000bit")


def test_a_rate_taken_away_keeps_the_shaper_with_what_it_holds() -> None:
    commands = change_commands("w0b", LinkSpec(), has_tbf=True)
    assert commands[1] == (
        "qdisc change dev w0b parent 1:1 handle 10: "
        "tbf rate 100000000000bit burst 16777216b limit 268435456b"
    )


def test_parting_takes_the_redirect_away_first() -> None:
    assert part_commands(Lane(WIRE, True, LinkSpec())) == [
        "qdisc del dev w0a ingress",
        "qdisc del dev w0b root",
    ]


def test_the_failing_command_is_told_beside_the_reason() -> None:
    stderr = "Error: Specified qdisc kind is unknown.\nCommand failed -:2\n"
    assert complaint(stderr, ["qdisc add one", "qdisc add two"]) == (
        "Error: Specified qdisc kind is unknown. in 'tc qdisc add two'"
    )


def test_counters_are_read_from_both_ends() -> None:
    shown = by_interface(
        [
            {"kind": "ingress", "dev": "w0a", "bytes": 86_000, "packets": 1000, "drops": 0},
            {"kind": "noqueue", "dev": "lo"},
            {"kind": "netem", "dev": "w0b", "bytes": 70_000, "packets": 700, "drops": 290,
             "qlen": 4},
            {"kind": "tbf", "dev": "w0b", "bytes": 70_000, "packets": 700, "drops": 90, "qlen": 6},
        ]
    )  # fmt: skip
    counters = lane_counters(shown["w0a"], shown["w0b"])
    assert (counters.frames_in, counters.bytes_in) == (1000, 100_000)
    assert (counters.frames_out, counters.bytes_out) == (700, 70_000)
    assert counters.dropped == {"queue": 90, "loss": 200}
    assert counters.queued_frames == 6
    assert counters.duplicated is None
    assert counters.lateness is None
