"""What the sketches of all islands tell: how far they are apart, and how noisy their changes are.

Pure arithmetic on what workers wrote down; numpy and nothing else, so that whoever reads a run's
record can compute it.

**Consensus distance** is the mean over N islands of |x_i - mean|^2. A `CountSketch` S is linear and
|S x|^2 estimates |x|^2, so the same formula on sketches estimates it, without bias. With A the
matrix whose rows are x_i - mean, the estimate's variance is at most 2 |A A^T|_F^2 / k: a relative
standard error of sqrt(2 / k) at most (6.3 % for k = 512), when all differ along one line, and of
sqrt(2 / k / (N - 1)) when they differ in all directions alike (2.2 % for nine islands).

**Gradient noise** follows McCandlish, Kaplan, Amodei et al., "An empirical model of large-batch
training" (arXiv 1812.06162), appendix A.1. An island's change is a signal G that all have in
common and noise of covariance Sigma, so that E|mean of N|^2 = |G|^2 + tr(Sigma) / N. From the
changes of N islands, |G|^2 and tr(Sigma) have unbiased estimates, and their quotient, the *noise
scale*, is the number of islands whose mean change has as much noise as signal. Below it another
island helps almost in full, far above it hardly. Multiplied by the examples an island sees
in a round it is a batch size. Averages over rounds are to be taken of the two estimates, before
dividing. Where islands have different data (a small Dirichlet alpha) Sigma includes how much their
data differ, which a larger batch does not reduce.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Sketches = Sequence[Sequence[float]]
Event = Mapping[str, Any]
_Rows = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A value and its relative standard error; 0 for one that is exact."""

    value: float
    relative_error: float


@dataclass(frozen=True)
class GradientNoise:
    """How much of the islands' changes is signal, and how much noise.

    Attributes:
        signal2: estimate of |G|^2; may come out below 0 where noise prevails.
        noise2: estimate of tr(Sigma), of one island's change.
    """

    signal2: float
    noise2: float

    @property
    def scale_islands(self) -> float | None:
        """The number of islands whose mean has as much noise as signal; None if no signal shows."""
        return self.noise2 / self.signal2 if self.signal2 > 0 else None


def consensus_distance(sketches: Sketches) -> Estimate:
    """Return the mean of |x_i - mean|^2 from the sketches of all islands.

    Raises:
        ValueError: there are none, or they differ in length.
    """
    apart = _apart(sketches)
    gram = apart @ apart.T
    total = float(np.trace(gram))
    spread = float(np.linalg.norm(gram)) / total if total > 0 else 0.0
    return Estimate(total / len(apart), spread * (2 / apart.shape[1]) ** 0.5)


def gradient_noise(change_sketches: Sketches) -> GradientNoise:
    """Return signal and noise from the sketches of all islands' changes.

    Raises:
        ValueError: there are fewer than two, or they differ in length.
    """
    islands = len(change_sketches)
    if islands < 2:
        raise ValueError(f"{islands} islands: noise shows between two or more")
    apart2 = float(np.square(_apart(change_sketches)).sum()) / islands
    mean2 = float(np.square(_rows(change_sketches).mean(axis=0)).sum())
    return GradientNoise(
        signal2=mean2 - apart2 / (islands - 1), noise2=apart2 * islands / (islands - 1)
    )


def consensus_of_round(events: Sequence[Event]) -> Estimate | None:
    """Return the consensus distance from the `round` events of all islands for one round.

    Exact where all of them met; None where they wrote no sketches down.
    """
    distances = [event.get("consensus_distance") for event in events]
    if distances and None not in distances:
        return Estimate(float(np.mean(np.array(distances, dtype=np.float64))), 0.0)
    sketches = [event.get("sketch") or () for event in events]
    return consensus_distance(sketches) if _usable(sketches) else None


def gradient_noise_of_round(events: Sequence[Event]) -> GradientNoise | None:
    """Return the gradient noise from the `round` events of all islands for one round.

    None where they wrote no sketches down, or where there is one island only.
    """
    sketches = [event.get("change_sketch") or event.get("sketch") or () for event in events]
    return gradient_noise(sketches) if len(events) > 1 and _usable(sketches) else None


def _usable(sketches: Sketches) -> bool:
    return bool(sketches) and min(len(sketch) for sketch in sketches) > 0


def _apart(sketches: Sketches) -> _Rows:
    rows = _rows(sketches)
    relative = rows - rows[0]  # what all have in common takes no part in the rounding
    return np.asarray(relative - relative.mean(axis=0))


def _rows(sketches: Sketches) -> _Rows:
    rows = np.array(sketches, dtype=np.float64)
    if rows.ndim != 2 or not rows.size:
        raise ValueError("give one sketch an island, all of one length")
    return rows
