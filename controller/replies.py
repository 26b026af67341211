"""Answers of switches put together: a multipart reply comes in pieces, and several belong together.

OpenFlow 1.3.5, section 7.3.5: each piece carries the transaction number of its request and a flag
for "more to come". An error message for that number ends the wait as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any


class Gathering:
    """The answers to some requests to one switch.

    Attributes:
        parts: what has come so far, by the name given to each request.
        errors: what the switch refused, by the same name.
        complete: set when every request has its answer or its refusal.
        completed_s: Unix time of that moment.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self._open = dict(names)
        self.parts: dict[str, list[Any]] = {name: [] for name in names.values()}
        self.errors: dict[str, str] = {}
        self.complete = threading.Event()
        self.completed_s = 0.0

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the requests still without an answer."""
        return tuple(self._open.values())

    def is_open(self, xid: int) -> bool:
        """Whether more is to come for this transaction number."""
        return xid in self._open

    def add(self, xid: int, body: Iterable[Any], more: bool) -> None:
        """Take a piece of an answer."""
        self.parts[self._open[xid]].extend(body)
        if not more:
            self._close(xid)

    def refuse(self, xid: int, text: str) -> None:
        """Take an error in place of an answer."""
        self.errors[self._open[xid]] = text
        self._close(xid)

    def _close(self, xid: int) -> None:
        del self._open[xid]
        if not self._open:
            self.completed_s = time.time()
            self.complete.set()


class Collector:
    """Finds the gathering that an arriving answer belongs to; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_xid: dict[int, Gathering] = {}

    def expect(self, names: Mapping[int, str]) -> Gathering:
        """Announce requests by transaction number, before they are sent."""
        gathering = Gathering(names)
        with self._lock:
            self._by_xid.update(dict.fromkeys(names, gathering))
        return gathering

    def add(self, xid: int, body: Iterable[Any], more: bool) -> Gathering | None:
        """Take a piece of an answer; its gathering, or None if nobody asked or waits any more."""
        with self._lock:
            gathering = self._by_xid.get(xid)
            if gathering is not None:
                gathering.add(xid, body, more)
                self._drop_answered(xid, gathering)
            return gathering

    def refuse(self, xid: int, text: str) -> Gathering | None:
        """Take an error; its gathering, or None if the error answers no request of these."""
        with self._lock:
            gathering = self._by_xid.pop(xid, None)
            if gathering is not None:
                gathering.refuse(xid, text)
            return gathering

    def forget(self, gathering: Gathering) -> None:
        """Wait for this one no longer."""
        with self._lock:
            self._by_xid = {x: other for x, other in self._by_xid.items() if other is not gathering}

    def _drop_answered(self, xid: int, gathering: Gathering) -> None:
        if not gathering.is_open(xid):
            del self._by_xid[xid]
