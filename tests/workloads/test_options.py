"""Mistakes in options and variables: one line that says what is right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workloads.collectives.endpoint import Endpoint
from workloads.collectives.interfaces import Interface, choose_interface
from workloads.collectives.roster import Roster
from workloads.errors import UsageError
from workloads.training.settings import parse

JOB = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}


def test_the_variables_of_torchrun_say_who_and_where() -> None:
    assert Endpoint.from_environment(JOB) == Endpoint(1, 3, "10.0.0.1", 29500)


def test_without_any_variable_a_worker_is_alone() -> None:
    assert Endpoint.from_environment({}) == Endpoint(0, 1, "127.0.0.1", 0)


def test_rank_0_keeps_the_store_unless_the_agent_of_torchrun_does() -> None:
    job = {**JOB, "RANK": "0"}
    assert Endpoint.from_environment(job).keeps_store
    assert not Endpoint.from_environment(
        {**job, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ).keeps_store


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"RANK": "3"}, "RANK=3: give a whole number from 0 to 2"),
        ({"RANK": "one"}, "RANK=one: give a whole number from 0 to 2"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0: give a whole number from 1 to 100000"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT=70000: give a whole number from 1 to 65535"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR: set all four or none"),
    ],
)
def test_a_wrong_variable_is_named_with_its_range(changed: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as failure:
        Endpoint.from_environment({**JOB, **changed})
    assert message in str(failure.value)


def test_a_rank_is_called_by_its_site() -> None:
    roster = Roster.from_environment(3, {"ATOLL_SITES": "NYC, LON,TYO"})
    assert roster.names([2, 0]) == "NYC (rank 0), TYO (rank 2)"


def test_a_rank_without_a_site_is_called_by_its_number() -> None:
    assert Roster.from_environment(3, {}).name(2) == "rank 2"


@pytest.mark.parametrize("sites", ["NYC,LON", "NYC,LON,NYC", "NYC,,LON"])
def test_site_codes_that_do_not_fit_the_ranks_are_refused(sites: str) -> None:
    with pytest.raises(UsageError, match="one distinct code a rank"):
        Roster.from_environment(3, {"ATOLL_SITES": sites})


def test_the_interface_toward_a_loopback_address_is_lo() -> None:
    assert choose_interface(None, "127.0.0.1") == Interface("lo", "127.0.0.1")


@pytest.mark.parametrize("name", ["nosuch0", "lo,eth0"])
def test_an_interface_that_is_not_one_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match=rf"interface {name}: .*name one of .*\blo\b"):
        choose_interface(name, "127.0.0.1")


def test_a_round_has_ten_local_steps_unless_gradients_are_averaged() -> None:
    assert parse([], 0).local_steps == 10
    assert parse(["--outer", "none"], 0).local_steps == 1


def test_a_schedule_may_come_with_a_job_file_or_without() -> None:
    assert parse(["--schedule", "s.json"], 0).job_file is None
    assert parse(["--schedule", "s.json", "--job-file", "j"], 0).job_file == Path("j")


def test_all_that_changes_the_outcome_is_told_to_the_other_workers() -> None:
    words = {
        parse(arguments, 0).job()
        for arguments in (
            [],
            ["--workload", "digits"],
            ["--dirichlet-alpha", "0.5"],
            ["--overlap-fragments", "2"],
            ["--outer", "diloco"],
            ["--outer", "diloco", "--outer-momentum", "0"],
            ["--outer", "diloco", "--outer-learning-rate", "1"],
        )
    }
    assert len(words) == 7


def test_the_rank_is_filled_into_the_output_folder() -> None:
    assert parse(["--out", "results/{rank}"], 7).out == Path("results/7")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--outer", "none", "--local-steps", "5"], "leave --local-steps out"),
        (["--outer", "sgd"], "invalid choice: 'sgd'"),
        (["--rounds", "0"], "give a whole number from 1"),
        (["--seed", "-1"], "give a whole number from 0"),
        (["--learning-rate", "nan"], "give a number above 0"),
        (["--round", "3"], "unrecognized arguments: --round 3"),
        (["--workload", "images"], "invalid choice: 'images'"),
        (["--workload", "replay"], "--workload replay: give --layers FILE"),
        (["--layers", "x.csv"], "--layers with --workload characters: leave it out"),
        (["--dirichlet-alpha", "0"], "give a number above 0"),
        (
            ["--workload", "replay", "--layers", "x.csv", "--dirichlet-alpha", "1"],
            "a replay has no data",
        ),
        (["--outer-momentum", "0.5"], "--outer-momentum with --outer mean: only diloco"),
        (["--outer", "diloco", "--outer-momentum", "1"], "give a number from 0 to below 1"),
        (["--outer", "none", "--overlap-fragments", "2"], "no local steps to overlap with"),
        (["--overlap-fragments", "101"], "give a whole number from 0 to 100"),
        (["--schedule", "s.json", "--collective", "ring"], "the schedule names the kinds"),
        (["--collective", "multicast"], "--collective multicast: give --job-file FILE"),
        (["--job-file", "j.json"], "--collective ring: leave --job-file out"),
    ],
)
def test_a_wrong_option_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as failure:
        parse(arguments, 0)
    assert message in str(failure.value)


def test_a_mistake_is_one_line_and_exit_code_2(bare_environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "workloads.training.train", "--rounds", "none"]
    done = subprocess.run(
        command, env=bare_environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: argument --rounds: 'none'")
    assert done.stderr.count("\n") == 1
