"""What runs on an island, whatever it is: the one interface behind which all workloads stand.

A workload is chosen by name and built before any other worker is involved. Trained ones differ by
their `Task` alone; `replay` has no model at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from workloads.collectives.base import Collective
from workloads.collectives.endpoint import Endpoint
from workloads.training.rotation import Turn
from workloads.training.rounds import RoundLog
from workloads.training.settings import Settings


class Workload(Protocol):
    """One island's work: rounds, an evaluation, and one state of all islands at the end."""

    @property
    def message_bytes(self) -> int:
        """Bytes that an island contributes to a round."""

    def identity(self) -> str:
        """Return what all workers must have in common beside their options, in one word."""

    def description(self) -> dict[str, Any]:
        """Return what the `start` event says of it."""

    def rounds(self, turns: Iterable[Turn]) -> Iterator[RoundLog]:
        """Go through the rounds; each log comes when its round is settled."""

    def evaluate(self) -> dict[str, Any]:
        """Return the fields of an event that say how good the island's state is."""

    def unite(self, collective: Collective) -> None:
        """Take the mean of all islands' states."""

    def sha256(self) -> str:
        """Return the SHA-256 of the state, in hexadecimal."""


def build(settings: Settings, endpoint: Endpoint) -> Workload:
    """Build the workload that the settings name.

    Raises:
        UsageError: a setting does not fit, or a file is wrong.
    """
    if settings.workload == "replay":
        from workloads.replay.workload import Replay

        return Replay.of(settings, endpoint)
    from workloads.training.trained import Trained

    return Trained(settings, endpoint)
