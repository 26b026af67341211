"""Messages out, with transaction numbers that no two messages of the controller share.

The library numbers messages with a plain counter on the datapath, which two threads can read at
once; an answer would then be taken for another's. Here one counter serves all switches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from controller import messages
from controller.diff import Phase
from controller.replies import Collector, Gathering

_XID_MASK = 0xFFFFFFFF


class Transport:
    """Sends to any datapath and remembers which answers are awaited."""

    def __init__(self) -> None:
        self.collector = Collector()
        self._xids = itertools.count(1)

    def send(self, datapath: Any, message: Any) -> None:
        """Send one message that has no answer."""
        self._send_as(next(self._xids) & _XID_MASK, datapath, message)

    def send_phases(self, datapath: Any, phases: Iterable[Phase]) -> None:
        """Send changes phase by phase, a barrier after each."""
        for phase in phases:
            for message in messages.phase_messages(datapath, phase):
                self.send(datapath, message)

    def ask(
        self,
        datapath: Any,
        requests: Mapping[str, Any],
        announce: Callable[[Gathering], None] = lambda gathering: None,
    ) -> Gathering:
        """Send requests by name; `announce` gets their gathering before the first is sent."""
        numbered = {next(self._xids) & _XID_MASK: name for name in requests}
        gathering = self.collector.expect(numbered)
        announce(gathering)
        for xid, name in numbered.items():
            self._send_as(xid, datapath, requests[name])
        return gathering

    def _send_as(self, xid: int, datapath: Any, message: Any) -> None:
        message.set_xid(xid)
        datapath.send_msg(message)
