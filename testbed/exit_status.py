"""How a process ended, in words: a code means little to somebody who did not start it."""

from __future__ import annotations

import signal
from pathlib import Path


def how_it_ended(code: int, output: Path | None = None) -> str:
    """Return how a process with this exit code ended, and the last words it wrote to `output`.

    Codes below zero are signals, as `subprocess` has them. The words are quoted, not pointed to:
    the private files of a run go with it.
    """
    if code >= 0:
        ended = f"ended with exit code {code}"
    else:
        ended = f"was ended by {signal.Signals(-code).name}"
    words = last_words(output) if output else ""
    return f"{ended}: {words}" if words else ended


def last_words(output: Path) -> str:
    """Return the last line of a file that is not blank; empty where there is none."""
    try:
        lines = output.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
