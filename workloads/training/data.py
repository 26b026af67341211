"""Real text, cut into one shard a worker and a part that no worker trains on.

Three works in the public domain (see `corpus/SOURCE.md`) are cut into blocks. Every sixteenth
block is held out, whatever the seed and the number of workers, so that held-out losses of
different runs can be compared. The others are shuffled by the seed and dealt out in turn: the
shards are disjoint, cover all that is not held out, and hold a like share of each work.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from workloads.errors import UsageError
from workloads.training.shards import shard_of

CORPUS_DIRECTORY = Path(__file__).parent / "corpus"
BLOCK_CHARACTERS = 2048
HELD_OUT_EVERY = 16

Tokens = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Corpus:
    """The text in blocks of tokens.

    Attributes:
        vocabulary: the characters that the tokens stand for.
        blocks: the text.
        books: the number of the work that each block is from.
    """

    vocabulary: str
    blocks: tuple[Tokens, ...]
    books: tuple[int, ...]

    def decode(self, tokens: Tokens) -> str:
        """Return the text of some tokens."""
        return "".join(self.vocabulary[token] for token in tokens)


def load_corpus(directory: Path = CORPUS_DIRECTORY) -> Corpus:
    """Read every text file of a directory, in order of name, as one corpus.

    Raises:
        UsageError: there is no text, or it has more different characters than a byte can number.
    """
    texts = [path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.txt"))]
    vocabulary = "".join(sorted(set().union(*texts)))
    if not 0 < len(vocabulary) <= 256:
        raise UsageError(
            f"{directory}: {len(vocabulary)} different characters in {len(texts)} text files; "
            "give text with 1 to 256"
        )
    token_of = {character: token for token, character in enumerate(vocabulary)}
    blocks = [
        (block, book)
        for book, text in enumerate(texts)
        for block in _blocks(np.array([token_of[c] for c in text], dtype=np.uint8))
    ]
    return Corpus(vocabulary, tuple(b for b, _ in blocks), tuple(book for _, book in blocks))


def held_out_blocks(corpus: Corpus) -> tuple[Tokens, ...]:
    """Return the blocks that no worker trains on."""
    return corpus.blocks[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]


def shard_blocks(
    corpus: Corpus, rank: int, world_size: int, seed: int, dirichlet_alpha: float | None = None
) -> tuple[Tokens, ...]:
    """Return the blocks of one worker's shard.

    Args:
        corpus: the text.
        rank: the worker's.
        world_size: workers of the job.
        seed: decides who gets which block.
        dirichlet_alpha: how unevenly the works are shared out; None for a like share of each.

    Raises:
        UsageError: there are more workers than blocks.
    """
    training = [i for i in range(len(corpus.blocks)) if (i + 1) % HELD_OUT_EVERY]
    books = np.array([corpus.books[i] for i in training])
    shard = shard_of(rank, world_size, books, seed, dirichlet_alpha, "blocks of text")
    return tuple(corpus.blocks[training[i]] for i in shard)


class Batches:
    """Endless batches of windows from some blocks, drawn at random by a seed."""

    def __init__(
        self, blocks: tuple[Tokens, ...], context: int, batch_size: int, seed: tuple[int, ...]
    ) -> None:
        self._tokens = np.concatenate(blocks)
        self._starts = window_starts([len(block) for block in blocks], context)
        self._context = context
        self._batch_size = batch_size
        self._generator = np.random.default_rng(seed)

    def next(self) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, each of shape (batch, context) and type int64."""
        starts = self._generator.choice(self._starts, size=self._batch_size)
        return gather_windows(self._tokens, starts, self._context)


def held_out_windows(
    corpus: Corpus, context: int, windows: int, rank: int, world_size: int
) -> tuple[Tensor, Tensor]:
    """Return a worker's share of a fixed set of windows of held-out text.

    The set is the same for every seed and world size; window i is evaluated by rank i modulo the
    world size.

    Returns:
        Inputs and targets, each of shape (share, context); the share may be empty.
    """
    blocks = held_out_blocks(corpus)
    starts = window_starts([len(block) for block in blocks], context)
    evenly = np.linspace(0, len(starts) - 1, num=windows).astype(np.int64)
    return gather_windows(np.concatenate(blocks), starts[evenly][rank::world_size], context)


def window_starts(lengths: list[int], context: int) -> npt.NDArray[np.int64]:
    """Return each place where `context` tokens and the one after them lie within one block.

    Raises:
        UsageError: no block is long enough.
    """
    ends = np.cumsum(lengths)
    starts = [
        np.arange(end - length, end - context) for length, end in zip(lengths, ends, strict=True)
    ]
    joined = np.concatenate(starts).astype(np.int64)
    if not len(joined):
        raise UsageError(f"context of {context} characters: longer than any block of text")
    return joined


def gather_windows(
    tokens: Tokens, starts: npt.NDArray[np.int64], context: int
) -> tuple[Tensor, Tensor]:
    """Return the windows at `starts` as inputs, and one token further on as targets."""
    windows = tokens[starts[:, None] + np.arange(context + 1)].astype(np.int64)
    both = torch.from_numpy(windows)
    return both[:, :-1], both[:, 1:]


def _blocks(tokens: Tokens) -> list[Tokens]:
    """Cut into blocks of the usual size; what is left over lengthens the last block."""
    count = max(len(tokens) // BLOCK_CHARACTERS, 1)
    return np.split(tokens, [BLOCK_CHARACTERS * i for i in range(1, count)])
