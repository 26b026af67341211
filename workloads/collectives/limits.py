"""How long a worker waits before it gives up and says for whom it waited."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How long a worker waits: for the others to come, and for a peer within a collective."""

    rendezvous_s: float = 60.0
    collective_s: float = 60.0
