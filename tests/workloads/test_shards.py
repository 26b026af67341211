"""Who gets which data: disjoint, complete, never empty, and as uneven as asked for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.collectives.endpoint import Endpoint
from workloads.errors import UsageError
from workloads.training import characters, digits
from workloads.training.data import held_out_blocks, load_corpus, shard_blocks
from workloads.training.settings import Settings
from workloads.training.shards import dirichlet_shards, shard_of

WORKERS = 9


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=80),
    workers=st.integers(1, 30),
    alpha=st.sampled_from([1e-6, 1e-3, 0.1, 1.0, 100.0, 1e6]),
    seed=st.integers(0, 2**32),
)
def test_shards_are_disjoint_cover_all_and_are_never_empty(
    labels: list[int], workers: int, alpha: float, seed: int
) -> None:
    array = np.array(labels)
    if workers > len(array):
        with pytest.raises(UsageError, match=f"{workers} workers but {len(array)} images"):
            shard_of(0, workers, array, seed, alpha, "images")
        return
    shards = dirichlet_shards(array, workers, alpha, seed)
    assert len(shards) == workers
    assert all(len(shard) for shard in shards)
    assert sorted(np.concatenate(shards).tolist()) == list(range(len(array)))
    again = dirichlet_shards(array, workers, alpha, seed)
    assert all(np.array_equal(one, two) for one, two in zip(shards, again, strict=True))


def skew(alpha: float, seed: int = 0) -> float:
    """Return how far the shards' mixtures of ten labels are from the whole's, from 0 to 0.9."""
    labels = np.arange(4500) % 10
    shards = dirichlet_shards(labels, WORKERS, alpha, seed)
    mixtures = [np.bincount(labels[shard], minlength=10) / len(shard) for shard in shards]
    return float(np.mean([np.abs(mixture - 0.1).sum() / 2 for mixture in mixtures]))


def test_a_smaller_alpha_makes_data_more_uneven() -> None:
    skews = [np.mean([skew(alpha, seed) for seed in range(5)]) for alpha in (0.05, 0.5, 5, 500)]
    assert all(more > less for more, less in pairwise(skews))
    assert skews[0] > 0.5 > 0.05 > skews[-1]


def test_the_mean_share_of_each_worker_is_even_and_its_variance_that_of_the_distribution() -> None:
    # A share of Dir(alpha, ..., alpha) over n has mean 1/n and variance (n - 1) / (n^2 (n a + 1)).
    labels, workers, alpha = np.zeros(2000, dtype=int), 4, 0.5
    counts = [
        [len(shard) for shard in dirichlet_shards(labels, workers, alpha, seed)]
        for seed in range(500)
    ]
    shares = np.array(counts) / len(labels)
    np.testing.assert_allclose(shares.mean(axis=0), 1 / 4, atol=0.03)
    variance = (workers - 1) / (workers**2 * (workers * alpha + 1))
    np.testing.assert_allclose(shares.var(), variance, rtol=0.1)


def test_other_seeds_share_out_otherwise() -> None:
    labels = np.arange(100) % 10
    one, two = (dirichlet_shards(labels, 3, 1.0, seed)[0] for seed in (0, 1))
    assert not np.array_equal(one, two)


def test_without_alpha_items_are_dealt_out_in_turn() -> None:
    order = np.random.default_rng(5).permutation(100)
    shard = shard_of(2, 7, np.zeros(100), 5, None, "blocks")
    np.testing.assert_array_equal(shard, order[2::7])


def test_text_is_split_by_book() -> None:
    corpus = load_corpus()
    held_out = {id(block) for block in held_out_blocks(corpus)}
    book_of = {id(block): book for block, book in zip(corpus.blocks, corpus.books, strict=True)}
    shards = [shard_blocks(corpus, rank, 3, 0, 0.05) for rank in range(3)]
    assert sum(map(len, shards)) == len(corpus.blocks) - len(held_out)
    assert not held_out & {id(block) for shard in shards for block in shard}
    books = [[book_of[id(block)] for block in shard] for shard in shards]
    of_one_book = sum(max(map(shard.count, range(3))) for shard in books)
    assert of_one_book > 0.75 * sum(map(len, shards))  # 0.5 with a like share of each


def test_every_worker_has_a_task_under_an_extreme_alpha() -> None:
    for build in (characters.build_task, digits.build_task):
        for rank in range(WORKERS):
            task = build(
                Settings(preset="tiny", dirichlet_alpha=0.001),
                Endpoint(rank, WORKERS, "127.0.0.1", 1),
            )
            inputs, targets = task.batches.next()
            assert len(inputs) == len(targets) == 8
