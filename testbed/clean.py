"""Tidy up after runs whose supervisor was killed; a living run is touched only when it is named.

After SIGKILL of a supervisor the kernel has already ended every process of the run and removed its
namespaces. What may be left is the run's private folder, its share in the host's settings and a
record that still says it is running.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from testbed.host_settings import HostSettings
from testbed.ownership import ProcessId, RuntimeDirectory, runtime_directories
from testbed.supervisor import TEARDOWN_LIMIT_S, host_settings
from topologies.errors import RunError, UserError


@dataclass(frozen=True)
class Cleaned:
    """What became of one run: `removed`, `ended` (it was alive and named) or `alive` (left)."""

    run_id: str
    outcome: str


def clean(run_id: str | None = None) -> list[Cleaned]:
    """Remove what dead runs left; a named run is ended first if it lives.

    Raises:
        UserError: when no run of that name has left anything.
        RunError: when a named run does not end.
    """
    directories = runtime_directories()
    if run_id is not None:
        directories = tuple(one for one in directories if one.run_id == run_id)
        if not directories:
            raise UserError(f"run {run_id!r} has left nothing to clean; `atoll ps` lists what runs")
    settings = host_settings()
    cleaned = [
        _clean_one(directory, settings, named=run_id is not None) for directory in directories
    ]
    if run_id is None:
        _release_strangers(settings)
    return cleaned


def _clean_one(directory: RuntimeDirectory, settings: HostSettings, named: bool) -> Cleaned:
    alive = directory.alive
    if alive and not named:
        return Cleaned(directory.run_id, "alive")
    if alive:
        _end(directory)
    settings.release(directory.run_id)
    directory.remove()
    return Cleaned(directory.run_id, "ended" if alive else "removed")


def _release_strangers(settings: HostSettings) -> None:
    """Release the shares of runs that have no folder any more."""
    known = {directory.run_id for directory in runtime_directories()}
    for holder in settings.holders():
        if holder not in known:
            settings.release(holder)


def _end(directory: RuntimeDirectory) -> None:
    """Ask the supervisor to end the run, then the kernel to end its first process."""
    owner = directory.owner()
    if owner is None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in owner.processes:
            _send(process, number)
        if _wait_until_dead(directory):
            return
    raise RunError(f"run {directory.run_id} does not end, not even by SIGKILL")


def _send(process: ProcessId, number: signal.Signals) -> None:
    if process.alive:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _wait_until_dead(directory: RuntimeDirectory) -> bool:
    deadline = time.monotonic() + TEARDOWN_LIMIT_S + 5
    while time.monotonic() < deadline:
        if not directory.alive:
            return True
        time.sleep(0.05)
    return False
