"""`atoll exec` and `atoll shell`: from a process of the host into an island."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.deploy.island import Islands
from testbed.deploy.remote import RunAccess, exec_command, ssh_argv
from topologies.errors import UserError

if TYPE_CHECKING:
    from tests.deploy.conftest import Bench

PROGRAM = """
import sys
from pathlib import Path
from testbed.deploy.remote import RunAccess, exec_command, shell
access = RunAccess(Path(sys.argv[1]), int(sys.argv[2]))
rest = sys.argv[4:]
sys.exit(exec_command(access, sys.argv[3], rest) if rest else shell(access, sys.argv[3]))
"""


def program(bench: Bench, *words: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(bench.run_directory), str(bench.init.pid), *words]


def call(bench: Bench, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    with bench.outside():
        return subprocess.run(
            program(bench, *words), input=given, capture_output=True, text=True, timeout=60
        )


@pytest.mark.root
def test_a_command_runs_at_the_site_with_its_words_intact(
    islands: Islands, shared_bench: Bench
) -> None:
    done = call(shared_bench, "NYC", "printf", "%s|", "$HOSTNAME", "two words", "a;b")
    assert (done.stdout, done.stderr, done.returncode) == ("$HOSTNAME|two words|a;b|", "", 0)
    assert call(shared_bench, "LON", "hostname").stdout == "lon\n"


@pytest.mark.root
def test_exit_code_and_standard_input_pass_through(islands: Islands, shared_bench: Bench) -> None:
    done = call(shared_bench, "AMS", "bash", "-c", "tr a-z A-Z; exit 42", given="hello\n")
    assert (done.stdout, done.returncode) == ("HELLO\n", 42)


@pytest.mark.root
def test_a_shell_without_a_terminal_runs_its_input(islands: Islands, shared_bench: Bench) -> None:
    done = call(shared_bench, "NYC", given="hostname\nexit 5\n")
    assert (done.stdout, done.returncode) == ("nyc\n", 5)


@pytest.mark.root
def test_with_a_terminal_the_island_gives_one(islands: Islands, shared_bench: Bench) -> None:
    controller, terminal = pty.openpty()
    with shared_bench.outside():
        process = subprocess.Popen(
            program(shared_bench, "NYC", "bash", "-c", "test -t 0 && test -t 1 && echo terminal"),
            stdin=terminal,
            stdout=terminal,
        )
    os.close(terminal)
    assert process.wait(timeout=60) == 0
    assert b"terminal\r\n" in os.read(controller, 4096)
    os.close(controller)


@pytest.mark.root
def test_an_unknown_site_is_told_with_those_there_are(
    islands: Islands, shared_bench: Bench
) -> None:
    access = RunAccess(shared_bench.run_directory, shared_bench.init.pid)
    with pytest.raises(UserError, match=r"no island 'ROM' in run .*; it has AMS, LON, NYC"):
        exec_command(access, "ROM", ["true"])


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_run_that_has_ended_is_told(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with pytest.raises(UserError, match=r"run seven is not running any more"):
        exec_command(RunAccess(tmp_path / "seven", ended.pid), "NYC", ["true"])


def test_no_command_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no command for NYC; write it after --"):
        exec_command(RunAccess(tmp_path, 1), "NYC", [])


def test_the_runs_own_configuration_is_used_in_the_runs_network() -> None:
    argv = ssh_argv(RunAccess(Path("/run/atoll/r1"), 99), "NYC", "hostname", terminal=False)
    assert argv == [
        "nsenter",
        "--net=/proc/99/ns/net",
        "--",
        *("ssh", "-F", "/run/atoll/r1/ssh/ssh_config", "-T", "NYC", "--", "hostname"),
    ]
