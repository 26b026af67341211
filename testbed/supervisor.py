"""The part of a run that stays in the host: it owns the run, waits for it and tidies up after it.

The supervisor holds the host's settings for the run, starts the run's first process in namespaces
of its own, passes on a request to end, and removes the run's private folder. If it is killed
itself, the kernel ends the run (`testbed.isolation`), and `atoll clean` does the tidying.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from testbed.host_settings import HostSettings, wanted_settings
from testbed.isolation import first_process, spawn_isolated
from testbed.order import Order
from testbed.ownership import LEDGER_NAME, RUNTIME_ROOT, Owner, ProcessId, RuntimeDirectory
from topologies.errors import RunError

TEARDOWN_LIMIT_S = 30.0
POLL_S = 0.2
Handler = Callable[[int, FrameType | None], object] | int | None


def host_settings() -> HostSettings:
    """Return the ledger of host-wide settings that all runs of this machine share."""
    return HostSettings(RUNTIME_ROOT / LEDGER_NAME)


def supervise(order: Order) -> int:
    """Carry out an order in namespaces of its own; returns its exit code.

    Whatever happens, the host's settings and the private folder are put right before it returns.
    """
    runtime = RuntimeDirectory(order.run_id)
    with _signals_held() as pending:
        runtime.create()
        try:
            runtime.write_owner(_owner(order, None))
            order.write(runtime.path)
            host_settings().acquire(order.run_id, wanted_settings(order.congestion_control))
            return _run(order, runtime, pending)
        finally:
            host_settings().release(order.run_id)
            runtime.remove()


def _run(order: Order, runtime: RuntimeDirectory, pending: list[int]) -> int:
    run = spawn_isolated([sys.executable, "-m", "testbed.inner", str(runtime.path)])
    try:
        first = first_process(run.pid)
        runtime.write_owner(_owner(order, ProcessId.of(first)))
        code = _wait(run, first, pending)
        if not runtime.has_ended:
            raise RunError(
                "the run's first process was killed from outside; what it had recorded is in "
                f"{order.record_directory}"
            )
        return code
    finally:
        run.kill()
        run.wait()


def _owner(order: Order, first_process: ProcessId | None) -> Owner:
    supervisor = ProcessId.of(os.getpid())
    if supervisor is None:
        raise RunError("/proc does not show this process: it must be mounted")
    return Owner(order.run_id, order.topology, order.record_directory, supervisor, first_process)


def _wait(run: subprocess.Popen[bytes], first: int, pending: list[int]) -> int:
    """Wait for the run; a request to end goes to its first process, with a time limit.

    It is asked again and again, because process 1 of a PID namespace does not even notice a signal
    before it has a handler for it (pid_namespaces(7)); once it has, it takes the first only.
    """
    deadline = float("inf")
    while True:
        with suppress(subprocess.TimeoutExpired):
            return run.wait(timeout=POLL_S)
        if not pending:
            continue
        deadline = min(deadline, time.monotonic() + TEARDOWN_LIMIT_S)
        with suppress(ProcessLookupError):
            os.kill(first, signal.SIGTERM)
        if time.monotonic() > deadline:
            raise RunError(f"the run did not end within {TEARDOWN_LIMIT_S:.0f} s and was killed")


@contextmanager
def _signals_held() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying of them, so that the run can end in order."""
    pending: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        pending.append(number)

    previous: dict[int, Handler] = {}
    for request in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        previous[request] = signal.signal(request, hold)
    try:
        yield pending
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
