"""A part of the network dies under a training: the run says which, at once, and takes all along."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.deploy.process_table import ProcessFacts
from testbed.record.reader import list_runs, load_run
from testbed.record.writer import FAILED
from tests.testbed.atoll_process import AtollProcess, atoll, living_in, running_ids

pytestmark = [pytest.mark.root, pytest.mark.slow]

WORDS = ("emulate", "three_city", "--no-calibrate", "--rounds", "200", "--local-steps", "1")
BRING_UP_LIMIT_S = 90.0
Victim = Callable[[AtollProcess, ProcessFacts], bool]


def is_linkd(run: AtollProcess, process: ProcessFacts) -> bool:
    return process.name == "linkd"


def is_switch_daemon_of_fra(run: AtollProcess, process: ProcessFacts) -> bool:
    here = run.namespace_of("switch", "FRA")
    return process.name.startswith("ovs-vswitchd") and process.netns_inode == here


@pytest.mark.parametrize(
    ("victim", "reason"),
    [
        (is_linkd, "linkd was ended by SIGKILL"),
        (is_switch_daemon_of_fra, "switch daemon of switch FRA was ended by SIGKILL"),
    ],
)
def test_a_daemon_that_is_killed_ends_the_run_with_its_name(
    tmp_path: Path, victim: Victim, reason: str
) -> None:
    with atoll(tmp_path, *WORDS, "--links", "linkd", "--datapath", "userspace") as run:
        run.wait_until(lambda: trains(run), BRING_UP_LIMIT_S, "training")
        namespaces = run.namespaces()
        (pid,) = [process.pid for process in living_in(namespaces) if victim(run, process)]
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        assert run.ends() == 1
        assert time.monotonic() - killed < 20
        assert run.lines[-1] == f"atoll: {reason}\n", run.said
        assert sum(line.startswith("atoll: ") for line in run.lines) == 1
        assert_only_the_record_is_left(run, namespaces, reason)


def trains(run: AtollProcess) -> bool:
    """Whether a worker has reported a round."""
    logs = (run.runs / "latest" / "workers").glob("*.jsonl")
    return any('"round"' in log.read_text() for log in logs)


def assert_only_the_record_is_left(run: AtollProcess, namespaces: set[int], reason: str) -> None:
    assert living_in(namespaces) == []
    assert run.record.name not in running_ids()
    recorded = load_run(run.record)
    assert recorded.state == FAILED
    assert recorded.reason == reason
    assert [entry.valid for entry in list_runs(run.runs)] == [False]
