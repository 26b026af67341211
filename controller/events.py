"""What happened lately: a bounded log that the northbound interface shows.

Bounded, because a switch that flaps all night must not eat the memory; repeated lines are counted
instead of kept, for the same reason.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, replace

LOG = logging.getLogger("atoll.controller")
MOST_EVENTS = 2000


@dataclass(frozen=True)
class Event:
    """Something that happened: number, Unix time, kind, site (or empty), words and repetitions."""

    number: int
    time_s: float
    kind: str
    site: str
    text: str
    count: int = 1


class EventLog:
    """The latest events, safe to use from any thread; every new one goes to the log file too."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._lock = threading.Lock()
        self._total = 0

    def add(self, kind: str, site: str, text: str) -> None:
        """Record an event; the same as the last one only raises its count."""
        with self._lock:
            self._total += 1
            last = self._events[-1] if self._events else None
            if last and (last.kind, last.site, last.text) == (kind, site, text):
                self._events[-1] = replace(
                    last, number=self._total, time_s=time.time(), count=last.count + 1
                )
                return
            self._events.append(Event(self._total, time.time(), kind, site, text))
        LOG.info("%s %s %s", kind, site or "-", text)

    def after(self, number: int = 0) -> tuple[Event, ...]:
        """Events with a larger number than this, oldest first."""
        with self._lock:
            return tuple(event for event in self._events if event.number > number)
