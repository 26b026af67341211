from __future__ import annotations

import subprocess

import pytest

from testbed.deploy.remote_process import describe_exit, last_line, wrapped


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (3, "exit code 3"),
        (137, "killed by SIGKILL"),
        (143, "killed by SIGTERM"),
        (200, "exit code 200"),
        (-1, "the connection was lost"),
    ],
)
def test_an_exit_is_told_in_words(code: int, told: str) -> None:
    assert describe_exit(code) == told


def test_the_last_line_is_the_last_that_says_something() -> None:
    assert last_line("Traceback\n  File\nValueError: no\n\n  \n") == "ValueError: no"
    assert last_line("\n \n") == ""


def test_what_a_shell_says_of_a_killed_command_is_left_out() -> None:
    told = "bash: line 1:    21 Killed                  /bin/bash -c 'cd /tmp/job && env RANK=1'"
    assert last_line(f"ValueError: no\n{told}\n") == "ValueError: no"
    assert last_line(told) == ""


def test_the_shell_says_its_pid_then_the_output_and_keeps_the_exit_code() -> None:
    done = subprocess.run(
        ["bash", "-c", wrapped("echo 'quoted \"words\"'; exit 7")], capture_output=True, text=True
    )
    pid, output = done.stdout.splitlines()
    assert pid.isdigit()
    assert output == 'quoted "words"'
    assert done.returncode == 7
