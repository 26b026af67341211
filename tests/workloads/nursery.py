"""Forks workers from one process that has loaded PyTorch, so that tests need not load it each time.

Reads a request a line on standard input, a JSON object, and answers with one:
`{"start": ARGUMENTS, "environment": {...}, "stdout": PATH, "stderr": PATH}` with a process id, and
`{"wait": PROCESS_ID, "limit_s": SECONDS}` with an exit code, or null when the limit is over.
ARGUMENTS are those of a Python interpreter: a script, or -m and a module.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
import traceback
from typing import Any

import workloads.training.worker  # noqa: F401  (loads PyTorch before the forks)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        answer = start(request) if "start" in request else wait(request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def start(request: dict[str, Any]) -> int:
    process_id = os.fork()
    if process_id == 0:
        os._exit(become(request))
    return process_id


def become(request: dict[str, Any]) -> int:
    """Run what is asked for as if Python had been started for it; return the exit code."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    try:
        run(request["start"])
    except SystemExit as leave:
        return int(leave.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def run(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def wait(request: dict[str, Any]) -> int | None:
    deadline = time.monotonic() + request["limit_s"]
    while time.monotonic() < deadline:
        process_id, status = os.waitpid(request["wait"], os.WNOHANG)
        if process_id:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


if __name__ == "__main__":
    main()
