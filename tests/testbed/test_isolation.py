import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.isolation import first_process, spawn_isolated, start_time_ticks

pytestmark = pytest.mark.root


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_the_first_process_is_number_one_of_its_own_network(tmp_path: Path) -> None:
    run = spawn_isolated([sys.executable, "-c", "import os; os._exit(os.getpid() != 1)"])
    assert run.wait() == 0


def test_the_first_process_is_found_from_the_host() -> None:
    run = spawn_isolated(["sleep", "60"])
    try:
        first = first_process(run.pid)
        assert wait_until(lambda: "sleep" in Path(f"/proc/{first}/comm").read_text())
        own = Path("/proc/self/ns/net").stat().st_ino
        assert Path(f"/proc/{first}/ns/net").stat().st_ino != own
    finally:
        run.kill()
        run.wait()
    assert wait_until(lambda: start_time_ticks(first) is None)


def test_killing_the_supervisor_ends_what_the_run_started_in_the_background() -> None:
    code = (
        "import time; from testbed.isolation import *\n"
        "run = spawn_isolated(['sh', '-c', 'setsid sleep 61 & sleep 60'])\n"
        "print(first_process(run.pid), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        first = int(supervisor.stdout.readline())
        children = Path(f"/proc/{first}/task/{first}/children")
        assert wait_until(lambda: len(children.read_text().split()) == 2)
        pids = [first, *map(int, children.read_text().split())]
        os.kill(supervisor.pid, signal.SIGKILL)
    assert wait_until(lambda: all(start_time_ticks(pid) is None for pid in pids))
