"""Names of runs: when, on what, and a few random digits to tell runs of one second apart."""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timezone
from pathlib import Path

RANDOM_BYTES = 2
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


def format_run_id(moment: datetime, topology_name: str, random_hex: str) -> str:
    """Return `<UTC date-time>-<topology>-<hex>`, fit for a file name; sorts by time."""
    stamp = moment.astimezone(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}-{_UNSAFE.sub('_', topology_name)}-{random_hex}"


def new_run_id(topology_name: str, runs: Path | None = None) -> str:
    """Return a name for a run that begins now.

    Args:
        topology_name: becomes part of the name.
        runs: the folder of all records; a name that is taken there is not given again.
    """
    while True:
        now = datetime.now(timezone.utc)
        run_id = format_run_id(now, topology_name, secrets.token_hex(RANDOM_BYTES))
        if runs is None or not (runs / run_id).exists():
            return run_id
