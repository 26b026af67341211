"""The judge of the short kernel test on what ping prints; its messages on a switch in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.fabric import Fabric
from tests.controller.pipeline import PipelineSwitch
from tests.vm.short_kernel import (
    BURST,
    GROUP,
    HELLO,
    Answer,
    Demand,
    answers,
    dropped_by,
    judge_delay,
    judge_loss,
    judge_order,
    judge_queue,
    judge_rate,
    messages,
    receivers_of,
    sending_ms,
    wanted,
    write,
)
from topologies.files import load

PRINTED = """PING 10.9.0.2 (10.9.0.2) 958(986) bytes of data.
966 bytes from 10.9.0.2: icmp_seq=1 ttl=64 time=8.25 ms
966 bytes from 10.9.0.2: icmp_seq=2 ttl=64 time=16.1 ms

--- 10.9.0.2 ping statistics ---
2 packets transmitted, 2 received, 0% packet loss, time 1001ms
"""


def met(demands: object) -> list[bool]:
    assert hasattr(demands, "__iter__")
    return [demand.met for demand in demands if isinstance(demand, Demand)]


def series(times_ms: list[float]) -> tuple[Answer, ...]:
    return tuple(
        Answer(number, "10.9.0.2", time_ms) for number, time_ms in enumerate(times_ms, start=1)
    )


def test_answers_are_read_as_ping_prints_them() -> None:
    first, second = answers(PRINTED)
    assert first == Answer(1, "10.9.0.2", 8.25)
    assert (second.sequence, second.round_trip_ms) == (2, 16.1)


def test_a_second_copy_counts_as_one_more_answer() -> None:
    line = "64 bytes from 10.0.0.3: icmp_seq=1 ttl=64 time=9.51 ms"
    assert len(answers(f"{line}\n{line} (DUP!)\n")) == 2


def test_the_last_count_of_a_policer_is_read() -> None:
    text = "Sent 40000 bytes 40 pkts (dropped 27, overlimits 27 requeues 0)"
    assert dropped_by(f"Sent 1 bytes 1 pkts (dropped 1, overlimits 0)\n{text}") == 27


@pytest.mark.parametrize(
    ("times_ms", "expected"),
    [
        ([25.4] * 40, [True, True]),
        ([25.4] * 39, [False, True]),
        ([24.9] + [25.4] * 39, [True, False]),  # one was early
        ([0.2] * 40, [True, False]),  # not delayed at all
        ([], [False]),
    ],
)
def test_a_delay_is_exact_from_below(times_ms: list[float], expected: list[bool]) -> None:
    assert met(judge_delay(series(times_ms))) == expected


def test_the_time_of_sending_is_read_as_ping_prints_it() -> None:
    assert sending_ms(PRINTED) == 1001


# A slow sender takes 100 ms for the burst, so the last frame waits that much less.
@pytest.mark.parametrize("sent_in_ms", [0, 100])
@pytest.mark.parametrize(
    ("took_ms", "expected"),
    [(320.2, True), (318.5, True), (900.0, True), (160.0, False), (1400.0, False)],
)
def test_40_times_1000_bytes_at_1_mbit_s_take_320_ms(
    sent_in_ms: int, took_ms: float, expected: bool
) -> None:
    got = series([took_ms - sent_in_ms] * BURST)
    assert met(judge_rate(got, sent_in_ms)) == [True, expected]


@pytest.mark.parametrize(
    ("passed", "dropped", "sent_in_ms", "expected"),
    [
        (13, 27, 0, True),
        (12, 28, 0, True),
        (15, 25, 0, False),
        (15, 25, 16, True),  # two more left meanwhile
        (40, 0, 100, False),
        (13, 0, 0, False),
        (5, 35, 0, False),
    ],
)
def test_100_ms_at_1_mbit_s_hold_12_frames(
    passed: int, dropped: int, sent_in_ms: int, expected: bool
) -> None:
    assert met(judge_queue(series([50.0] * passed), dropped, sent_in_ms)) == [expected]


@pytest.mark.parametrize(("passed", "expected"), [(240, True), (300, False), (150, False)])
def test_a_fifth_is_lost(passed: int, expected: bool) -> None:
    assert met(judge_loss(series([1.0] * passed))) == [expected]


def test_overtaking_is_seen() -> None:
    spread = series([float(40 + number % 30) for number in range(100)])
    assert met(judge_order(spread)) == [True]
    assert met(judge_order((spread[1], spread[0], *spread[2:]))) == [False]
    assert met(judge_order(series([40.0] * 100))) == [False]  # there was no jitter


def test_the_messages_put_the_tree_into_a_switch() -> None:
    fabric = Fabric.of(load("three_city"))
    middle, _ = receivers_of(fabric)
    data = messages(fabric, wanted(load("three_city"), fabric)[middle], middle)
    assert data.startswith(HELLO)
    switch, rest = PipelineSwitch(), data[len(HELLO) :]
    while rest:
        length = int.from_bytes(rest[2:4], "big")
        switch.handle(rest[:length])
        rest = rest[length:]
    assert [len(buckets) for _, buckets in switch.groups.values()] == [2]
    assert sum(("ipv4_dst", GROUP) in match for _, _, match in switch.flows) == 1


def test_the_plan_is_a_shell_script(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / "carry_out.sh").read_text()
    assert text.count("netem limit") == 2 + 5 + 6  # the wire, its trials, three WAN links
    assert text.count("datapath_type=system") == 3
