"""Who gets which part of the data: a like share of everything, or label by label at random.

With a Dirichlet parameter alpha each label is dealt out in shares drawn from a symmetric Dirichlet
distribution, label by label (Yurochkin et al., "Bayesian nonparametric federated learning of neural
networks", 2019; Hsu, Qi and Brown, arXiv 1909.06335, study its effect). At a large alpha all
islands hold the same mixture; at 0.1 most of a label lies on one or two islands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from workloads.errors import UsageError

Labels = npt.NDArray[Any]
Items = npt.NDArray[np.int64]
_STREAM = 0xD112


def shard_of(
    rank: int, workers: int, labels: Labels, seed: int, alpha: float | None, items: str
) -> Items:
    """Return which items one worker trains on.

    Args:
        rank: the worker's.
        workers: how many share the items.
        labels: the label of each item.
        seed: decides who gets which.
        alpha: the Dirichlet parameter, or None for a like share of everything.
        items: what they are called in errors.

    Raises:
        UsageError: there are more workers than items.
    """
    if workers > len(labels):
        raise UsageError(f"{workers} workers but {len(labels)} {items} to share out")
    if alpha is None:
        return np.random.default_rng(seed).permutation(len(labels))[rank::workers]
    return dirichlet_shards(labels, workers, alpha, seed)[rank]


def dirichlet_shards(labels: Labels, workers: int, alpha: float, seed: int) -> list[Items]:
    """Share out all items, each label in shares of its own; no shard is empty.

    Returns:
        The items of each worker in ascending order. They are disjoint and cover all.
    """
    generator = np.random.default_rng((seed, _STREAM))
    dealt: list[list[Items]] = [[] for _ in range(workers)]
    for label in np.unique(labels):
        items = generator.permutation(np.flatnonzero(labels == label))
        shares = np.cumsum(generator.dirichlet(np.full(workers, alpha)))[:-1]
        for worker, part in enumerate(np.split(items, np.rint(shares * len(items)).astype(int))):
            dealt[worker].append(part)
    return _none_empty([np.sort(np.concatenate(parts)) for parts in dealt])


def _none_empty(shards: list[Items]) -> list[Items]:
    """Give each empty shard the last item of the largest one, the first of those if several are."""
    for worker in range(len(shards)):
        if not len(shards[worker]):
            largest = max(range(len(shards)), key=lambda one: len(shards[one]))
            shards[worker] = shards[largest][-1:]
            shards[largest] = shards[largest][:-1]
    return shards
