"""Ending a training when its target is reached: which round is the last, told to all in time.

Islands do not wait for one another between rounds, so a word to stop must name a round that none
of them has begun: the furthest finished one and a margin, large enough for the word to arrive.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

ARRIVAL_S = 2.0
LEAST_MARGIN_ROUNDS = 2


def is_reached(rounds: Sequence[Mapping[str, Any]], target_loss: float) -> bool:
    """Return whether the held-out loss of any finished round is at the target or below."""
    losses = [row["held_out_loss"] for row in rounds]
    return any(loss is not None and loss <= target_loss for loss in losses)


def last_round(
    furthest: int, rounds: Sequence[Mapping[str, Any]], arrival_s: float = ARRIVAL_S
) -> int:
    """Return the round after which all workers are to end.

    Args:
        furthest: the largest number of a round that any worker has finished.
        rounds: those that all have finished.
        arrival_s: time for the word to reach every island.
    """
    typical_s = statistics.median(row["round_s"] for row in rounds)
    margin = math.ceil(arrival_s / typical_s) + 1 if typical_s > 0 else 0
    return furthest + max(LEAST_MARGIN_ROUNDS, margin)


def stop_file(after_round: int) -> str:
    """Return the text of the file that tells workers to end after a round."""
    return json.dumps({"after_round": after_round}) + "\n"


def not_reached(target_loss: float, summary: Mapping[str, Any], unit: str | None) -> str:
    """Return the line for a training that ended above its target."""
    last, done = summary["held_out_loss"]["last"], len(summary["rounds"])
    shown = "unknown" if last is None else f"{last:.4g}"
    return (
        f"the target loss of {target_loss:g} was not reached in {done} rounds: the held-out loss "
        f"is {shown}{f' {unit}' if unit else ''}; give more rounds or a higher target"
    )
