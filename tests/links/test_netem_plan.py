"""The exact words for `tc`, by hand arithmetic."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.links.backend import Wire
from testbed.links.netem_backend import complaint, json_values, lane_counters
from testbed.links.netem_plan import (
    change_commands,
    counter_commands,
    join_commands,
    netem_limit,
    netem_words,
    part_commands,
    policer_words,
    refuse_unable,
)
from testbed.links.registry import Lane
from testbed.links.spec import GilbertElliott, LinkSpec
from topologies.errors import UserError
from topologies.model import Direction

WIRE = Wire(3, "w3a", "w3b", Direction("NYC", "LON"))
FORWARD_SPEC = LinkSpec(rate_mbps=100, one_way_delay_ms=45.6)
LANES = (Lane(WIRE, True, FORWARD_SPEC), Lane(WIRE, False, LinkSpec()))
UNLIMITED = "rate 1000000000000bit burst 1000000000b mtu 1048576b conform-exceed drop/ok"


def test_a_wire_is_shaped_both_ways_before_anything_feeds_it() -> None:
    # 100 Mbit/s: 91.2 ms of queue are 1,140,000 bytes;
    # netem holds 45.6 + 91.2 ms = 1,710,000 bytes = 26,719 frames of 64.
    assert join_commands(LANES) == [
        "qdisc add dev w3a clsact",
        "qdisc add dev w3b clsact",
        "qdisc add dev w3b root handle 1: netem limit 26719 delay 45600.000us 0.000us "
        "loss random 0% duplicate 0% corrupt 0% rate 100000000bit",
        "filter add dev w3b egress pref 1 protocol all u32 match u32 0 0 action police "
        "rate 100000000bit burst 1140000b mtu 1048576b conform-exceed drop/ok index 7",
        "qdisc add dev w3a root handle 1: netem limit 1000 delay 0.000us 0.000us "
        "loss random 0% duplicate 0% corrupt 0% rate 1000000000000bit",
        "filter add dev w3a egress pref 1 protocol all u32 match u32 0 0 action police "
        f"{UNLIMITED} index 8",
        "filter add dev w3a ingress pref 1 protocol all u32 match u32 0 0 "
        "action mirred egress redirect dev w3b",
        "filter add dev w3b ingress pref 1 protocol all u32 match u32 0 0 "
        "action mirred egress redirect dev w3a",
    ]


@pytest.mark.parametrize(
    ("rate_mbps", "mtu_bytes", "words"),
    [
        (0.064, 1500, "rate 64000bit burst 15140b"),  # ten frames of 1,514
        (1, 9000, "rate 1000000bit burst 90140b"),
        (1000, 9000, "rate 1000000000bit burst 6250000b"),  # 50 ms
        (10_000, 9000, "rate 10000000000bit burst 62500000b"),
    ],
)
def test_the_queue_is_bounded_in_bytes_at_the_rate(
    rate_mbps: float, mtu_bytes: int, words: str
) -> None:
    spec = LinkSpec(rate_mbps=rate_mbps, mtu_bytes=mtu_bytes)
    assert policer_words(spec) == f"{words} mtu 1048576b conform-exceed drop/ok"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"jitter_ms": 2.5}, "delay 20000.000us 2500.000us"),
        ({"jitter_ms": 2.5}, "rate 1000000000000bit"),  # keeps the order
        ({"jitter_ms": 2.5, "reorder": True}, "rate 0bit"),
        ({"rate_mbps": 0.064, "mtu_bytes": 1500}, "rate 64000bit"),
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


def test_reordering_at_a_rate_is_refused() -> None:
    spec = LinkSpec(rate_mbps=1, one_way_delay_ms=5, jitter_ms=5, reorder=True)
    with pytest.raises(UserError, match="reorder needs rate_mbps none with netem"):
        refuse_unable(spec)
    refuse_unable(spec.changed(rate_mbps=None))
    refuse_unable(spec.changed(jitter_ms=0))


def test_a_change_names_everything_again() -> None:
    assert change_commands(LANES[0], FORWARD_SPEC.changed(one_way_delay_ms=0, queue_ms=50)) == [
        "qdisc change dev w3b root handle 1: netem limit 9766 delay 0.000us 0.000us "
        "loss random 0% duplicate 0% corrupt 0% rate 100000000bit",
        "actions change action police rate 100000000bit burst 625000b mtu 1048576b "
        "conform-exceed drop/ok index 7",
    ]


def test_a_change_leaves_the_queue_bound_alone_if_it_can() -> None:
    commands = change_commands(LANES[0], FORWARD_SPEC.changed(loss_pct=1))
    assert [command.split()[:2] for command in commands] == [["qdisc", "change"]]


def test_a_rate_taken_away_takes_the_bound_away() -> None:
    commands = change_commands(LANES[0], FORWARD_SPEC.changed(rate_mbps=None))
    assert commands[1] == f"actions change action police {UNLIMITED} index 7"


def test_parting_takes_what_feeds_away_first() -> None:
    assert part_commands(LANES) == [
        "qdisc del dev w3a clsact",
        "qdisc del dev w3b clsact",
        "qdisc del dev w3b root",
        "qdisc del dev w3a root",
    ]


def test_the_failing_command_is_told_beside_the_reason() -> None:
    stderr = "Error: Specified qdisc kind is unknown.\nCommand failed -:2\n"
    assert complaint(stderr, ["qdisc add one", "qdisc add two"]) == (
        "Error: Specified qdisc kind is unknown. in 'tc qdisc add two'"
    )


def test_the_output_of_a_batch_is_several_values() -> None:
    assert json_values('[{"a":1}]\n[ ]\n\n[{"b":[2]}]\n') == [[{"a": 1}], [], [{"b": [2]}]]
    assert json_values("\n") == []


def action(kind: str, **stats: int) -> list[dict[str, Any]]:
    """As `tc -s -j filter show` has it: heads of the hash table come before the filter."""
    return [
        {"protocol": "all", "pref": 1, "kind": "u32", "chain": 0},
        {"kind": "u32", "options": {"fh": "800:", "ht_divisor": 1}},
        {"kind": "u32", "options": {"fh": "800::800", "actions": [{"kind": kind, "stats": stats}]}},
    ]


def test_counters_are_read_from_inlet_root_and_policer() -> None:
    assert counter_commands(LANES[0]) == [
        "filter show dev w3a ingress",
        "qdisc show dev w3b",
        "filter show dev w3b egress",
    ]
    netem = {"kind": "netem", "bytes": 70_000, "packets": 700, "drops": 200, "qlen": 6}
    counters = lane_counters(
        action("mirred", bytes=86_000, packets=1000), [netem], action("police", drops=94)
    )
    assert (counters.frames_in, counters.bytes_in) == (1000, 100_000)
    assert (counters.frames_out, counters.bytes_out) == (700, 70_000)
    assert counters.dropped == {"queue": 94, "loss": 200}
    assert counters.queued_frames == 6
    assert counters.duplicated is None
    assert counters.lateness is None
