"""How fast averaging can go at most, for `consensus` and for `mean`.

Weigh directions of disagreement by a positive semidefinite matrix Z of trace one. A rotation's
spectral gap is no more than what its rounds remove of Z per second, <Z, I - W> / time at the best
round (Boyd, Ghosh, Prabhakar and Shah, IEEE Trans. Inf. Theory 52, 2006). Two kinds of Z bound
exact cycles too: all directions alike, since ranks of a product obey Sylvester's inequality; and
the two sides of a cut, since a round cannot move more than a share of what they differ by.
"""

from __future__ import annotations

import numpy as np

from schedules.all_pairs import averaging_needs
from schedules.large_rounds import LargeRounds
from schedules.relaxations import ROUTED_SITES, Worth


def averaging_bound(rounds: LargeRounds) -> float:
    """Return a number that no spectral gap per second, and no 1 / time of a cycle, exceeds."""
    size = rounds.size
    least = rounds.bound(Worth.of_removal((np.eye(size) - 1 / size) / (size - 1)))
    if size > ROUTED_SITES:
        return least
    for need in averaging_needs(rounds.model, rounds.clock, rounds.collectives):
        others = [
            relaxed.bound(need.worth)
            for name, relaxed in rounds.relaxations.items()
            if name != need.collective
        ]
        least = min(least, max([need.rate, *others]))
    return least
