"""How far the islands' models are apart, and how noisy what they learned in a round is. Pure.

*Consensus distance* is the mean over the islands of |x_i - mean|^2 after local work, before the
exchange (Kong et al., ICML 2021). A clique of everybody knows it exactly. Elsewhere no island hears
all others, so each notes a *sketch* of its parameters: a fixed random linear map to few numbers
that keeps squared lengths in expectation (Charikar, Chen and Farach-Colton, 2002; the relative
standard error is about sqrt(2 / k) for k numbers). Sketches of differences are differences of
sketches.

*Gradient noise*: in a round the islands move by d_i = signal + noise_i. With n islands

    noise  = n / (n - 1) x mean |d_i - mean d|^2
    signal = (n |mean d|^2 - mean |d_i|^2) / (n - 1)

are unbiased (McCandlish et al., arXiv 1812.06162, appendix A); their ratio is by how many times the
islands' batches would have to grow for noise and signal to balance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

WorkerRow = Mapping[str, Any]


def consensus_distance(rows: Sequence[WorkerRow]) -> float | None:
    """Return the consensus distance of a round's rows: exact where known, else from sketches."""
    exact = [row.get("consensus_distance") for row in rows]
    known = [float(value) for value in exact if value is not None]
    if known and len(known) == len(rows):
        return float(np.mean(known))
    sketches = _sketches(rows, "sketch")
    return None if sketches is None else spread(sketches)


def gradient_noise(rows: Sequence[WorkerRow]) -> float | None:
    """Return noise over signal of the islands' changes of one round.

    Returns:
        None where it cannot be told: too few islands, no model, or no signal.
    """
    norms = [float(row["change_norm2"]) for row in rows if row.get("change_norm2") is not None]
    apart = _changes_apart(rows)
    if apart is None or len(rows) < 2 or len(norms) != len(rows):
        return None
    noise = len(rows) / (len(rows) - 1) * apart
    signal = float(np.mean(norms)) - noise
    return noise / signal if signal > 0 else None


def _changes_apart(rows: Sequence[WorkerRow]) -> float | None:
    """Return the spread of the islands' changes; where all began alike, that of the models."""
    changes = _sketches(rows, "change_sketch")
    return consensus_distance(rows) if changes is None else spread(changes)


def _sketches(rows: Sequence[WorkerRow], name: str) -> Any:
    """Return (N, k) sketches of all islands; None unless all have one of the same length."""
    found = [row.get(name) for row in rows]
    lengths = {len(sketch) for sketch in found if sketch}
    if len(lengths) != 1 or not all(found):
        return None
    return np.array(found, dtype=np.float64)


def spread(sketches: Any) -> float:
    """Return the mean squared distance of (N, k) vectors from their mean."""
    return float(np.square(sketches - sketches.mean(axis=0)).sum(axis=1).mean())
