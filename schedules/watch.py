"""Keeping an eye on a long solve: progress, a time limit, and Ctrl-C that keeps the best so far."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType


@dataclass(frozen=True)
class Progress:
    """Where a solve stands.

    Attributes:
        stage: what is being done, in a few words.
        done: steps done of `total`; total is zero when it is not known.
        total: steps in all.
        elapsed_s: time since the solve began.
        left_s: time left at the present pace or until the limit, whichever comes first; None when
            nothing can be said.
        gap_pct: how far the best plan so far may be from the optimum; None before there is one.
    """

    stage: str
    done: int
    total: int
    elapsed_s: float
    left_s: float | None
    gap_pct: float | None


Listener = Callable[[Progress], None]


@dataclass
class Watch:
    """Tells a solver when to stop, and a listener how far it is.

    Attributes:
        limit_s: longest time to solve; None for as long as it takes.
        listener: is told of progress, at most ten times a second.
    """

    limit_s: float | None = None
    listener: Listener | None = None
    interrupted: bool = False
    _began: float = field(default_factory=time.monotonic)
    _stage_began: float = field(default_factory=time.monotonic)
    _stage: str = ""
    _told: float = 0.0

    def restart(self) -> None:
        """Begin anew with the whole time limit, for the next of several searches."""
        self._began = self._stage_began = time.monotonic()
        self._stage = ""

    def over(self) -> bool:
        """Whether to stop now with the best so far."""
        return self.interrupted or (self.limit_s is not None and self.elapsed_s > self.limit_s)

    @contextmanager
    def limited(self, share: float) -> Iterator[None]:
        """Allow only a share of the limit while this lasts, to leave time for what follows."""
        whole = self.limit_s
        self.limit_s = None if whole is None else share * whole
        try:
            yield
        finally:
            self.limit_s = whole

    @property
    def elapsed_s(self) -> float:
        """Time since the watch was made."""
        return time.monotonic() - self._began

    @property
    def left_s(self) -> float | None:
        """Time until the limit."""
        return None if self.limit_s is None else max(0.0, self.limit_s - self.elapsed_s)

    def tell(self, stage: str, done: int, total: int, gap_pct: float | None = None) -> None:
        """Pass progress on to the listener."""
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._stage_began = stage, now
        if self.listener is None or (now - self._told < 0.1 and done < total):
            return
        self._told = now
        pace = (now - self._stage_began) / done if done else None
        guesses = [] if pace is None or not total else [pace * (total - done)]
        guesses += [] if self.left_s is None else [self.left_s]
        left = min(guesses, default=None)
        self.listener(Progress(stage, done, total, self.elapsed_s, left, gap_pct))

    @contextmanager
    def catching_interrupts(self) -> Iterator[None]:
        """Turn the first Ctrl-C into a request to stop; the second one interrupts as usual."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            self.interrupted = True
            signal.signal(signal.SIGINT, before)

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
