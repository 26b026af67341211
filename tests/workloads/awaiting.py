"""Waiting for what workers write."""

import time
from pathlib import Path

from workloads.training.records import read_events


def await_round(path: Path) -> None:
    """Return once a worker's file tells of a round."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and any(e["event"] == "round" for e in read_events(path)):
            return
        time.sleep(0.05)
    raise AssertionError(f"no round in {path} within a minute")
