"""How many frames a right link may lose: what chance leaves, for each model of loss. Pure."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from topologies.model import DirectionSpec

Interval = tuple[int, int]


def allowed_losses(frames: int, asked: DirectionSpec, doubt: float) -> Interval:
    """Return how few and how many of `frames` a right link loses, save for a chance of `doubt`.

    A frame whose one wrong bit falls into what tells frames apart is lost too; where the bit falls
    is chance as well, so corruption adds to the most and nothing to the least.
    """
    least, most = _lost_by_model(frames, asked, doubt)
    if asked.corrupt_pct > 0:
        most += _binomial(frames, asked.corrupt_pct, doubt)[1]
    return least, min(frames, most)


def _lost_by_model(frames: int, asked: DirectionSpec, doubt: float) -> Interval:
    if asked.loss_pct <= 0:
        return 0, 0
    if asked.loss_burst_packets is None or asked.loss_pct >= 100:
        return _binomial(frames, asked.loss_pct, doubt)
    chances = losses_in_bursts(frames, asked.loss_pct, asked.loss_burst_packets)
    return _central(chances, doubt)


def _binomial(frames: int, pct: float, doubt: float) -> Interval:
    """The central interval of the binomial distribution; of nothing and of all the one answer."""
    if pct >= 100:
        return frames, frames
    from scipy.stats import binom  # takes longer to import than most calibrations may last

    least, most = binom.interval(1 - doubt, frames, pct / 100)
    return int(least), int(most)


def _central(chances: NDArray[np.float64], doubt: float) -> Interval:
    """The least and the most of the central interval, as scipy has it for the binomial."""
    reached = np.cumsum(chances)
    least = int(np.searchsorted(reached, doubt / 2))
    most = int(np.searchsorted(reached, 1 - doubt / 2))
    return least, min(most, len(chances) - 1)


@lru_cache(maxsize=64)
def losses_in_bursts(frames: int, loss_pct: float, burst_packets: float) -> NDArray[np.float64]:
    """Return the chance of each number of lost frames, 0 to `frames`, for losses in bursts.

    Gilbert's chain in its long run: the generating function of the count is a product of the
    chain's transition matrices in which each step into the bad state is marked by z. It is taken at
    the roots of unity, where the Fourier transform turns it back into chances.
    """
    share = loss_pct / 100
    leave = 1 / burst_packets
    enter = leave * share / (1 - share)
    z = np.exp(-2j * np.pi * np.arange(frames + 1) / (frames + 1))
    step = np.empty((frames + 1, 2, 2), dtype=complex)
    step[:, 0, 0], step[:, 0, 1] = 1 - enter, enter * z
    step[:, 1, 0], step[:, 1, 1] = leave, (1 - leave) * z
    first = np.stack([np.full(frames + 1, 1 - share), share * z], axis=1)
    transform = np.einsum("ka,kab->k", first, np.linalg.matrix_power(step, frames - 1))
    chances: NDArray[np.float64] = np.clip(np.fft.ifft(transform).real, 0.0, 1.0)
    return chances
