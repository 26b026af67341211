"""Waiting for a key without stopping the clock, on a terminal; elsewhere just waiting."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

GONE = "q"  # what a terminal that is gone says: nobody watches any more


@contextmanager
def pressed_keys() -> Iterator[Callable[[float], str]]:
    """Give a function that waits so many seconds and returns the key that was pressed, or nothing.

    Keys are seen without Return and not shown; the terminal is as before when the body ends.
    """
    descriptor = _terminal()
    if descriptor is None:
        yield _only_wait
        return
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield lambda seconds: _key(descriptor, seconds)
    finally:
        with suppress(termios.error):  # it may be gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _terminal() -> int | None:
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        return None
    return descriptor if os.isatty(descriptor) else None


def _only_wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _key(descriptor: int, seconds: float) -> str:
    ready, _, _ = select.select([descriptor], [], [], seconds)
    if not ready:
        return ""
    try:
        return os.read(descriptor, 1).decode(errors="replace") or GONE
    except OSError:
        return GONE
