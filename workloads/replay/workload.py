"""The workload `replay`: computes by sleeping, and sends what the model would send.

A step sleeps as long as all layers' passes take. After local steps the change of all parameters is
one message, or N with overlap; with `--outer none` gradients go in buckets of several layers, one
after another, after the backward pass. The numbers' mean is known and checked: a wrong sum ends the
run with an error. There is no model, so there are no losses; what islands hold in the end, and give
the hash of, is the last mean that all of them took.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workloads.collectives.base import Collective
from workloads.collectives.endpoint import Endpoint
from workloads.errors import UsageError
from workloads.replay.layers import (
    ELEMENT_BYTES,
    Layer,
    bucket_sizes,
    load_layers,
    regrouped,
    step_s,
)
from workloads.replay.payload import Payload
from workloads.training.rotation import Turn
from workloads.training.rounds import RoundLog, in_turn, overlapped
from workloads.training.settings import Settings

LAST_ELEMENTS = 65_536
LAST_ROUND = -1


class Replay:
    """One island's part in a replay.

    Args:
        layers: the model.
        settings: scales, steps and the like.
        rank: this island's.
    """

    def __init__(self, layers: Sequence[Layer], settings: Settings, rank: int) -> None:
        sizes = bucket_sizes(layers, settings.message_scale)
        self.local_steps = settings.local_steps
        self._settings = settings
        self._rank = rank
        self._layers = layers
        self._step_s = step_s(layers) * settings.compute_scale
        self._sizes = regrouped(sizes, _messages_a_round(settings))
        self._payload = Payload(max(*self._sizes, LAST_ELEMENTS), settings.seed)
        self._turns: list[Turn] = []
        self._united = torch.empty(0)

    @classmethod
    def of(cls, settings: Settings, endpoint: Endpoint) -> Replay:
        """Read the layers that the settings name.

        Raises:
            UsageError: the file is wrong.
        """
        if settings.layers is None:
            raise UsageError("--workload replay: give --layers FILE")
        return cls(load_layers(settings.layers), settings, endpoint.rank)

    @property
    def message_bytes(self) -> int:
        """Bytes that an island contributes to a round."""
        return ELEMENT_BYTES * sum(self._sizes)

    def identity(self) -> str:
        """Return what all workers must have in common: the layers."""
        return f"layers={hashlib.sha256(repr(self._layers).encode()).hexdigest()[:16]}"

    def description(self) -> dict[str, Any]:
        """Return the model's sizes, real and scaled."""
        return {
            "parameters": sum(layer.numel for layer in self._layers),
            "loss_unit": None,
            "sketch_size": 0,
            "layers": len(self._layers),
            "step_s": self._step_s,
            "compute_scale": self._settings.compute_scale,
            "message_scale": self._settings.message_scale,
            "part_bytes": [ELEMENT_BYTES * size for size in self._sizes],
        }

    def rounds(self, turns: Iterable[Turn]) -> Iterator[RoundLog]:
        """Replay round by round."""
        overlaps = self._settings.overlap_fragments > 0
        return overlapped(self, turns) if overlaps else in_turn(self, turns)

    def step(self) -> None:
        """Sleep for one step."""
        time.sleep(self._step_s)

    def messages(self, turn: Turn) -> tuple[Sequence[Tensor], dict[str, Any]]:
        """Return the round's buckets."""
        self._turns.append(turn)
        parts = [
            self._payload.message(self._rank, turn.number, part, elements)
            for part, elements in enumerate(self._sizes)
        ]
        return parts, {"change_norm2": None, "sketch": [], "change_sketch": None}

    def settle(self, part: int, mean: Tensor) -> None:
        """Compare the mean of a bucket with what it must be."""
        turn = self._turns[0]
        assert turn.clique is not None
        self._payload.require_mean(mean, turn.clique.ranks, turn.number, part)
        if turn.meets_all:
            self._united = mean

    def end_round(self, turn: Turn) -> dict[str, Any]:
        """Go on to the next round's buckets."""
        self._turns.remove(turn)
        return {"consensus_distance": None}

    def evaluate(self) -> dict[str, Any]:
        """Return that nothing was evaluated."""
        return {"held_out_loss": None, "held_out_windows": 0}

    def unite(self, collective: Collective) -> None:
        """Take one more mean of all islands, of a message of a quarter of a megabyte."""
        mine = self._payload.message(self._rank, LAST_ROUND, 0, LAST_ELEMENTS)
        mean = collective.allreduce(mine, "the last message")
        self._payload.require_mean(mean, collective.members, LAST_ROUND, 0)
        self._united = mean

    def sha256(self) -> str:
        """Return the SHA-256 of the last mean that all islands took."""
        return hashlib.sha256(np.ascontiguousarray(self._united.numpy()).tobytes()).hexdigest()


def _messages_a_round(settings: Settings) -> int:
    """Return how many messages a round has; 0 for one a bucket."""
    return 0 if settings.outer == "none" else max(settings.overlap_fragments, 1)
