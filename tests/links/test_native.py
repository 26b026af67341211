"""Random lives of the daemon's core under the address and undefined-behaviour checks."""

import subprocess
from pathlib import Path

import pytest

from tests.links.driver import Driver

CASES_A_SEED = 10_000


@pytest.mark.parametrize("seed", range(1, 6))
def test_random_requests_packets_and_frames_break_nothing(fuzz_program: Path, seed: int) -> None:
    done = subprocess.run(
        [fuzz_program, str(CASES_A_SEED), str(seed)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{CASES_A_SEED} cases\n"


REQUESTS = {
    "hello": "ok",
    "status": "ok",
    "own": "ok",
    "join 1 w1a w1b rate=5 / rate=6": "ok",
    "join 1 w1a w1b / ": "ok",
    "set 1 backward loss=0 delay=5": "ok",
    "part 4294967295": "ok",
    "": "unknown request",
    "hallo": "unknown request",
    "hello you": "nothing more is wanted",
    "part": "a wire's index is wanted",
    "part -1": "a wire's index is wanted",
    "part 4294967296": "a wire's index is wanted",
    "join 1 w1a": "two interface names are wanted",
    "join 1 sixteen_letters_ w1b /": "two interface names are wanted",
    "join 1 w1a w1b rate=5": "no / between the two directions",
    "join 1 w1a w1b / / rate=5": "a misplaced /",
    "set 1 upward rate=5": "forward or backward is wanted",
    "set 1 forward / rate=5": "a misplaced /",
    "set 1 forward rate": "a setting is written key=value",
    "set 1 forward speed=5": "unknown setting",
    "set 1 forward rate=5 rate=6": "a setting is named twice",
    "set 1 forward rate=5M": "a value is out of range",
    "set 1 forward rate=": "a value is out of range",
    "set 1 forward loss=1000000001": "a value is out of range",
    "set 1 forward seed=18446744073709551616": "a value is out of range",
}


@pytest.mark.parametrize("line", REQUESTS)
def test_a_request_is_read_or_refused_with_the_reason(driver: Driver, line: str) -> None:
    assert driver.ask(f"parse {line}") == [REQUESTS[line]]
