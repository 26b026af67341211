"""Pushing, running, starting, watching and collecting on real islands."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.deploy.environment import command_line
from testbed.deploy.fleet import Fleet, WorkersFailed
from testbed.deploy.island import Islands, start_islands
from testbed.deploy.keys import generate_key_pair
from topologies.errors import HostFailures, UserError

if TYPE_CHECKING:
    from tests.deploy.conftest import Bench

pytestmark = pytest.mark.root


@pytest.fixture
def broken(bench: Bench) -> Iterator[Islands]:
    """Three islands for a test that harms them."""
    seats = [bench.add_node(site) for site in ("AMS", "LON", "NYC")]
    with start_islands(bench.run_directory, seats) as made:
        yield made


def test_the_same_files_reach_every_island(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/work.sh").write_text("#!/bin/sh\necho working at $ATOLL_SITE\n")
    (tmp_path / "code/work.sh").chmod(0o755)
    (tmp_path / "data.bin").write_bytes(os.urandom(300_000))
    fleet.push([tmp_path / "code", tmp_path / "data.bin"], "/tmp/pushed here")
    done = fleet.run("'/tmp/pushed here/code/work.sh'; wc -c < '/tmp/pushed here/data.bin'")
    assert done["LON"].stdout.split("\n")[:2] == ["working at LON", "300000"]
    assert len(done) == 3


def test_each_island_gets_its_own_shard(fleet: Fleet, tmp_path: Path) -> None:
    sources = {}
    for site in fleet.sites:
        (tmp_path / site).mkdir()
        (tmp_path / site / "shard.txt").write_text(f"shard of {site}")
        sources[site] = [tmp_path / site / "shard.txt"]
    fleet.push_each(sources, "/tmp/shards")
    told = fleet.run("cat /tmp/shards/shard.txt")
    assert {site: result.stdout for site, result in told.items()} == {
        site: f"shard of {site}" for site in fleet.sites
    }


def test_a_shard_for_an_unknown_island_is_the_users_mistake(fleet: Fleet) -> None:
    with pytest.raises(UserError, match="no island 'ROM'; the islands are AMS, LON, NYC"):
        fleet.push_each({"ROM": []}, "/tmp/shards")


def test_nothing_under_way_remains_after_a_transfer(
    fleet: Fleet, islands: Islands, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    fleet.push([tmp_path / "file"], "/tmp/once")
    fleet.collect("/tmp/once", tmp_path / "back")
    for server in islands.servers.values():
        assert sorted(path.name for path in (server.folder / "run").iterdir()) == ["ssh", "sshd"]
    assert not list(islands.run_directory.glob("transfer-*"))


def test_output_and_exit_code_come_back_per_island(fleet: Fleet) -> None:
    command = "echo out $ATOLL_SITE; echo err >&2; test $ATOLL_SITE != LON"
    done = fleet.run(command, check=False)
    assert {site: result.exit_code for site, result in done.items()} == {
        "AMS": 0,
        "LON": 1,
        "NYC": 0,
    }
    assert (done["NYC"].stdout, done["NYC"].stderr) == ("out NYC\n", "err\n")


def test_a_command_can_go_to_some_islands_only(fleet: Fleet) -> None:
    assert list(fleet.run("true", sites=["LON"])) == ["LON"]
    assert fleet.run("true", sites=[]) == {}
    with pytest.raises(UserError, match="no island 'ROM'"):
        fleet.run("true", sites=["ROM"])


def test_failures_are_raised_once_and_keep_what_succeeded(fleet: Fleet) -> None:
    command = "test $ATOLL_SITE = AMS && { echo no such shard >&2; exit 4; }; echo fine"
    with pytest.raises(HostFailures) as failed:
        fleet.run(command)
    assert failed.value.failures == {"AMS": "exit code 4: no such shard"}
    kept = failed.value.succeeded
    assert sorted(kept) == ["LON", "NYC"]
    assert kept["NYC"].stdout == "fine\n"  # type: ignore[attr-defined]


def test_a_command_that_takes_too_long_is_ended_on_the_island_too(fleet: Fleet) -> None:
    with pytest.raises(HostFailures, match=r"AMS: not finished within 0\.5 s"):
        fleet.run("exec -a overlong sleep 60", timeout_s=0.5)
    assert {r.stdout.strip() for r in fleet.run("pgrep -fc [o]verlong || true").values()} == {"0"}


def test_a_command_cannot_wait_for_input(fleet: Fleet) -> None:
    assert {result.stdout for result in fleet.run("cat; echo over").values()} == {"over\n"}


def test_progress_counts_every_island_of_an_action(islands: Islands) -> None:
    seen: list[tuple[str, str, int, int]] = []
    with islands.fleet(lambda *event: seen.append(event)) as told:
        told.run("true")
    assert {event[0] for event in seen} == {"run"}
    assert sorted(event[1] for event in seen) == ["AMS", "LON", "NYC"]
    assert sorted(event[2:] for event in seen) == [(1, 3), (2, 3), (3, 3)]


def test_started_programs_write_their_logs_as_they_go(fleet: Fleet, tmp_path: Path) -> None:
    lines: list[tuple[str, str]] = []
    script = "echo begin $RANK; echo careful >&2; read x < /tmp/gate; echo end"
    fleet.run("mkfifo /tmp/gate")
    commands = {
        site: command_line(["bash", "-c", script], {"RANK": str(rank)})
        for rank, site in enumerate(fleet.sites)
    }
    begun = fleet.start(commands, tmp_path, on_line=lambda site, line: lines.append((site, line)))
    _until(lambda: len(lines) == 3)
    assert (tmp_path / "NYC.out").read_text() == "begin 2\n"
    assert all(process.exit_code is None for process in begun.values())
    fleet.run("echo go > /tmp/gate")
    assert fleet.watch(begun, timeout_s=20) == {"AMS": 0, "LON": 0, "NYC": 0}
    _until(lambda: len(lines) == 6)
    assert (tmp_path / "NYC.err").read_text() == "careful\n"
    assert ("AMS", "end") in lines


def test_watching_tells_the_first_failure_and_ends_the_others(fleet: Fleet, tmp_path: Path) -> None:
    commands = {
        "AMS": "exec -a bystander sleep 300",
        "LON": "echo Traceback >&2; echo 'ValueError: loss is nan' >&2; sleep 0.3; exit 3",
        "NYC": "exit 0",
    }
    begun = fleet.start(commands, tmp_path)
    with pytest.raises(WorkersFailed) as failed:
        fleet.watch(begun, timeout_s=60)
    assert failed.value.first == "LON"
    assert failed.value.failures == {"LON": "exit code 3: ValueError: loss is nan"}
    assert failed.value.stderr_tail == "Traceback\nValueError: loss is nan"
    assert failed.value.succeeded == {"NYC": 0}
    assert failed.value.ended == ("AMS",)
    assert str(failed.value) == (
        "worker LON failed first: exit code 3: ValueError: loss is nan; ended the others (AMS)"
    )
    assert fleet.run("pgrep -fc [b]ystander || true")["AMS"].stdout == "0\n"


def test_a_killed_program_is_told_by_its_signal(fleet: Fleet, tmp_path: Path) -> None:
    begun = fleet.start({"NYC": "kill -KILL $$"}, tmp_path)
    with pytest.raises(WorkersFailed, match="worker NYC failed first: killed by SIGKILL"):
        fleet.watch(begun, timeout_s=20)


def test_what_runs_too_long_is_told_and_ended_even_if_it_ignores_sigterm(
    fleet: Fleet, tmp_path: Path
) -> None:
    stubborn = "trap '' TERM; echo ready; while true; do sleep 0.2; done"
    ready: list[str] = []
    begun = fleet.start(
        {"AMS": "true", "LON": stubborn}, tmp_path, on_line=lambda site, line: ready.append(site)
    )
    _until(lambda: ready == ["LON"])
    with pytest.raises(HostFailures, match=r"1 of 2 islands: LON: still running") as failed:
        fleet.watch(begun, timeout_s=0.5, grace_s=0.5)
    assert failed.value.succeeded == {"AMS": 0}
    assert begun["LON"].exit_code is not None


def test_results_are_collected_into_a_folder_per_site(fleet: Fleet, tmp_path: Path) -> None:
    fleet.run(
        "mkdir -p /tmp/out/deep; cd /tmp/out; echo $ATOLL_SITE > deep/name.txt; ln -s deep latest"
    )
    there = fleet.collect("/tmp/out", tmp_path / "got")
    assert there["NYC"] == tmp_path / "got/NYC/out"
    assert {site: (path / "deep/name.txt").read_text() for site, path in there.items()} == {
        "AMS": "AMS\n",
        "LON": "LON\n",
        "NYC": "NYC\n",
    }
    assert (there["LON"] / "latest/name.txt").read_text() == "LON\n"


def test_what_one_island_lacks_does_not_cost_the_others_results(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.run("rm -f /tmp/partial; test $ATOLL_SITE = LON || echo x > /tmp/partial")
    with pytest.raises(HostFailures, match=r"collect failed on 1 of 3 islands: LON: exit code"):
        fleet.collect("/tmp/partial", tmp_path / "got")
    assert (tmp_path / "got/NYC/partial").read_text() == "x\n"


def test_an_island_with_another_host_key_is_refused(broken: Islands) -> None:
    pinned = broken.keys.known_hosts
    real, other = pinned.read_text().splitlines(), generate_key_pair().public
    pinned.write_text("\n".join([real[0], real[1], real[2].split()[0] + " " + other]) + "\n")
    with pytest.raises(HostFailures) as failed:
        broken.fleet().run("true")
    assert failed.value.failures == {
        "NYC": "its host key is not the one made for this run; refused"
    }
    assert sorted(failed.value.succeeded) == ["AMS", "LON"]


def test_an_island_without_a_pinned_key_is_refused(broken: Islands) -> None:
    pinned = broken.keys.known_hosts
    pinned.write_text("\n".join(pinned.read_text().splitlines()[1:]) + "\n")
    with pytest.raises(HostFailures, match=r"AMS: .*not found in known_hosts"):
        broken.fleet().connect()


def test_a_dead_island_fails_alone(broken: Islands) -> None:
    broken.servers["LON"].kill()
    broken.servers["LON"].wait(10)
    with pytest.raises(HostFailures) as failed:
        broken.fleet().run("echo alive")
    assert failed.value.failures == {"LON": "nothing listens on its SSH port"}
    assert sorted(failed.value.succeeded) == ["AMS", "NYC"]


def test_an_island_that_dies_during_a_training_is_told(broken: Islands, tmp_path: Path) -> None:
    with broken.fleet() as fleet:
        begun = fleet.start(dict.fromkeys(fleet.sites, "sleep 300"), tmp_path)
        broken.servers["LON"].kill()
        with pytest.raises(WorkersFailed, match="worker LON failed first: the connection was lost"):
            fleet.watch(begun, timeout_s=60)
        assert begun["AMS"].exit_code == 128 + signal.SIGTERM


def test_an_island_that_hangs_costs_no_more_than_the_time_limit(broken: Islands) -> None:
    hanging = broken.servers["NYC"].process.pid
    first = Path(f"/proc/{hanging}/task/{hanging}/children").read_text().split()
    os.kill(int(first[0]), signal.SIGSTOP)
    begun_at = time.monotonic()
    with pytest.raises(HostFailures) as failed:
        broken.fleet().connect(timeout_s=3)
    assert failed.value.failures == {"NYC": "not finished within 3 s"}
    assert time.monotonic() - begun_at < 30


def _until(condition: object, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)
