"""The kernel's text to numbers; the text is that of proc(5)."""

from __future__ import annotations

import os
import time

import pytest

from testbed.monitor.procfs import (
    CpuTimes,
    ProcessTimes,
    parse_cpu,
    parse_process_stat,
    parse_runnable,
    parse_schedstat,
    read_cpu,
    read_process,
    read_runnable,
)


def test_busy_time_leaves_out_idle_waiting_and_stolen_time() -> None:
    text = "cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"
    assert parse_cpu(text) == CpuTimes(busy=10 + 20 + 30 + 6 + 7, steal=8, total=531)


def test_guest_time_is_not_counted_twice() -> None:
    assert parse_cpu("cpu 10 0 0 0 0 0 0 0 10 0").total == 10


def test_runnable_threads_are_the_first_of_the_pair() -> None:
    assert parse_runnable("0.67 2.72 3.88 3/117 12228\n") == 3


def test_schedstat_is_in_nanoseconds() -> None:
    assert parse_schedstat("1500000000 250000000 17\n") == ProcessTimes(1.5, 0.25)


def test_a_process_name_may_hold_blanks_and_parentheses() -> None:
    text = "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 120 30 0 0 20 0 1 0 5"
    assert parse_process_stat(text, 100) == ProcessTimes(1.5, None)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_cpu, ""),
        (parse_cpu, "cpu 1 2 3"),
        (parse_cpu, "intr 1 2 3 4 5 6 7 8 9"),
        (parse_runnable, "1 2 3"),
        (parse_schedstat, ""),
        (lambda text: parse_process_stat(text, 100), "7 (x) S 1"),
    ],
)
def test_other_text_is_refused(parse: object, text: str) -> None:
    with pytest.raises(ValueError, match=r"not /proc|invalid"):
        parse(text)  # type: ignore[operator]


def test_a_process_that_is_gone_has_no_times() -> None:
    assert read_process(2**22 + 1) is None


def test_a_process_that_works_gains_run_time() -> None:
    before = read_process(os.getpid())
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    after = read_process(os.getpid())
    assert before is not None and after is not None
    assert after.run_s > before.run_s


def test_the_machine_was_busy_and_something_runs() -> None:
    now = read_cpu()
    assert 0 < now.busy < now.total
    assert read_runnable() >= 1
