"""Shards of real text: disjoint, covering, decided by the seed."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.errors import UsageError
from workloads.training.data import (
    CORPUS_DIRECTORY,
    Batches,
    Corpus,
    held_out_blocks,
    held_out_windows,
    load_corpus,
    shard_blocks,
    window_starts,
)


@cache
def corpus() -> Corpus:
    return load_corpus()


def addresses(blocks: tuple[np.ndarray, ...]) -> list[int]:
    """Say which stretch of the text each block is; blocks are views into it."""
    return [block.__array_interface__["data"][0] for block in blocks]


def test_the_blocks_are_the_text_of_the_files_and_nothing_else() -> None:
    files = sorted(CORPUS_DIRECTORY.glob("*.txt"))
    text = "".join(path.read_text() for path in files)
    assert "".join(corpus().decode(block) for block in corpus().blocks) == text
    assert len(text) > 300_000


def test_each_file_is_the_one_whose_source_is_written_down() -> None:
    source = (CORPUS_DIRECTORY / "SOURCE.md").read_text()
    for path in CORPUS_DIRECTORY.glob("*.txt"):
        assert f"`{path.name}`" in source
        assert hashlib.sha256(path.read_bytes()).hexdigest() in source


@settings(max_examples=25, deadline=None)
@given(world_size=st.integers(1, 60), seed=st.integers(0, 2**32))
def test_shards_and_held_out_text_are_disjoint_and_cover_everything(
    world_size: int, seed: int
) -> None:
    shards = [shard_blocks(corpus(), rank, world_size, seed) for rank in range(world_size)]
    dealt = [address for shard in shards for address in addresses(shard)]
    dealt += addresses(held_out_blocks(corpus()))
    assert sorted(dealt) == sorted(addresses(corpus().blocks))


def test_shards_differ_by_no_more_than_one_block() -> None:
    counts = [len(shard_blocks(corpus(), rank, 9, 0)) for rank in range(9)]
    assert max(counts) - min(counts) <= 1


def test_one_block_in_sixteen_is_held_out() -> None:
    assert len(held_out_blocks(corpus())) == len(corpus().blocks) // 16


def test_more_workers_than_blocks_are_refused() -> None:
    with pytest.raises(UsageError, match="100000 workers"):
        shard_blocks(corpus(), 0, 100_000, 0)


def batches(seed: tuple[int, ...]) -> list[torch.Tensor]:
    source = Batches(shard_blocks(corpus(), 1, 3, 5), 64, 8, seed)
    return [source.next()[0] for _ in range(4)]


def test_the_same_seed_gives_the_same_batches() -> None:
    assert all(torch.equal(a, b) for a, b in zip(batches((5, 1)), batches((5, 1)), strict=True))


def test_another_seed_gives_other_batches() -> None:
    assert not any(torch.equal(a, b) for a, b in zip(batches((5, 1)), batches((6, 1)), strict=True))


def test_a_target_is_the_character_after_its_input() -> None:
    inputs, targets = Batches(shard_blocks(corpus(), 0, 9, 0), 64, 8, (0,)).next()
    assert inputs.shape == targets.shape == (8, 64)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_windows_stay_within_their_block() -> None:
    # Blocks of 4 and 6 tokens; a window of 3 needs 4: one place in the first, three in the second.
    assert window_starts([4, 6], 3).tolist() == [0, 4, 5, 6]


def test_a_context_longer_than_every_block_is_refused() -> None:
    with pytest.raises(UsageError, match="context of 9"):
        window_starts([4, 9], 9)


def test_every_batch_of_a_shard_is_text_of_that_shard() -> None:
    shard = shard_blocks(corpus(), 2, 9, 7)
    texts = [corpus().decode(block) for block in shard]
    inputs, _ = Batches(shard, 64, 32, (7, 2)).next()
    for window in inputs.numpy():
        assert any(corpus().decode(window) in text for text in texts)


def test_the_workers_share_out_one_set_of_held_out_windows() -> None:
    whole, _ = held_out_windows(corpus(), 64, 72, 0, 1)
    shares = [held_out_windows(corpus(), 64, 72, rank, 7)[0] for rank in range(7)]
    assert [len(share) for share in shares] == [11, 11, 10, 10, 10, 10, 10]
    for rank, share in enumerate(shares):
        assert torch.equal(share, whole[rank::7])


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="0 text files"):
        load_corpus(tmp_path)
