"""One switch's way from connecting to holding what it should: a state machine without I/O.

    absent --connect--> reading --same--> confirmed
                           |                  |
                           | different        | something else is wanted
                           v                  |
                      installing <------------+        still different after three
                           |                           tries: failed, until something
                           +--read back-> reading ...  new is wanted or it reconnects

A switch counts as confirmed only when its own answer equals what is wanted: a barrier reply says
that messages were worked off, not that they were accepted. Reading first means that a switch that
only lost its connection keeps forwarding, untouched, while one that was restarted gets everything.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from controller.diff import Phase, phases
from controller.rules import SwitchState

MOST_ATTEMPTS = 3
ANSWER_TIMEOUT_S = 5.0


class Status(str, enum.Enum):
    """Where a switch is on its way."""

    ABSENT = "absent"
    READING = "reading"
    INSTALLING = "installing"
    CONFIRMED = "confirmed"
    FAILED = "failed"


@dataclass
class SwitchSession:
    """State of one switch; methods that return phases want them sent, and a read after them.

    Attributes:
        wanted: what the switch should hold.
        installed: what it last said that it holds; None before it said anything.
        since_s: monotonic time of the last change of status.
        problem: why it is not confirmed, in words; empty when there is nothing to say.
        has_meters: whether the switch has a meter table.
    """

    wanted: SwitchState = field(default_factory=SwitchState)
    status: Status = Status.ABSENT
    installed: SwitchState | None = None
    since_s: float = 0.0
    attempts: int = 0
    problem: str = ""
    has_meters: bool = True

    def connected(self, now_s: float) -> None:
        """The switch is there and will be asked what it holds."""
        self.attempts, self.installed, self.problem = 0, None, ""
        self._enter(Status.READING, now_s)

    def disconnected(self, now_s: float, why: str = "not connected") -> None:
        """The switch is gone."""
        self.problem = why
        self._enter(Status.ABSENT, now_s)

    def rejected(self, text: str) -> None:
        """The switch answered a message with an error."""
        self.problem = text

    def want(self, wanted: SwitchState, now_s: float) -> tuple[Phase, ...]:
        """Change what is wanted; phases to send, or none if nothing differs or a read is due."""
        if wanted == self.wanted:
            return ()
        self.wanted, self.attempts = wanted, 0
        if self.status not in (Status.CONFIRMED, Status.FAILED) or self.installed is None:
            return ()
        return self._settle(self.installed, now_s)

    def read_back(self, installed: SwitchState, now_s: float) -> tuple[Phase, ...]:
        """The switch said what it holds; phases to send, or none when that settles it."""
        self.installed = installed
        return self._settle(installed, now_s)

    def recheck(self, now_s: float) -> bool:
        """Ask a settled switch again what it holds; whether a read is to be sent."""
        if self.status not in (Status.CONFIRMED, Status.FAILED):
            return False
        self.attempts = 0
        self._enter(Status.READING, now_s)
        return True

    def overdue(self, now_s: float) -> bool:
        """Whether the switch has owed an answer for too long."""
        waiting = self.status in (Status.READING, Status.INSTALLING)
        return waiting and now_s - self.since_s > ANSWER_TIMEOUT_S

    def _settle(self, installed: SwitchState, now_s: float) -> tuple[Phase, ...]:
        target = self.wanted if self.has_meters else self.wanted.without_meters()
        changes = phases(installed, target)
        if not changes:
            self.attempts, self.problem = 0, ""
            self._enter(Status.CONFIRMED, now_s)
            return ()
        if self.attempts >= MOST_ATTEMPTS:
            self.problem = self.problem or _difference(changes)
            self._enter(Status.FAILED, now_s)
            return ()
        self.attempts += 1
        self._enter(Status.INSTALLING, now_s)
        return changes

    def _enter(self, status: Status, now_s: float) -> None:
        self.status, self.since_s = status, now_s


def _difference(changes: tuple[Phase, ...]) -> str:
    count = sum(len(phase) for phase in changes)
    return f"{count} entries still differ after {MOST_ATTEMPTS} tries"
