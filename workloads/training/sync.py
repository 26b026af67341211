"""What an island says to its clique: `LocalSteps` of a change, `GradientEveryStep` of gradients.

`LocalSteps` takes H steps of AdamW alone and then averages with the clique. `GradientEveryStep` is
the baseline without any local freedom: the gradients of each single step are averaged, as
`DistributedDataParallel` does it. `rounds` calls both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from workloads.training.anchor import Anchor
from workloads.training.optimizer import AdamW, OuterOptimizer
from workloads.training.parameters import FlatParameters
from workloads.training.rotation import Turn
from workloads.training.sketch import CountSketch
from workloads.training.task import Task


class Learner:
    """A task on an island with its parameters and its optimizer."""

    def __init__(self, task: Task, parameters: FlatParameters, optimizer: AdamW) -> None:
        self._task = task
        self.parameters = parameters
        self.optimizer = optimizer

    def compute_gradients(self) -> float:
        """Put the gradients of the next batch into the parameters; return its loss."""
        self.parameters.gradients.zero_()
        loss = self._task.loss(self._task.model, *self._task.batches.next())
        torch.autograd.backward(loss)
        return loss.item()


class LocalSteps:
    """H local steps, then the outer step; what changes meanwhile is kept on top of it.

    Args:
        learner: what learns.
        outer: the outer optimizer.
        local_steps: H.
        fragments: parts in which parameters are exchanged.
        sketch: of the parameters, for estimates over all islands.
    """

    def __init__(
        self,
        learner: Learner,
        outer: OuterOptimizer,
        local_steps: int,
        sketch: CountSketch,
        fragments: int = 1,
    ) -> None:
        self.local_steps = local_steps
        self._learner = learner
        self._sketch = sketch
        self._anchor = Anchor(learner.parameters.values, outer)
        self._parts = even_parts(len(learner.parameters), fragments)
        self._sent_from = self._said = torch.empty(0)
        self._distance = 0.0

    def step(self) -> float:
        """Take one step of AdamW; return its training loss."""
        loss = self._learner.compute_gradients()
        self._learner.optimizer.step()
        return loss

    def messages(self, turn: Turn) -> tuple[Sequence[Tensor], dict[str, Any]]:
        """Return the parameters relative to the islands' common reference, in fragments."""
        anchor, values = self._anchor, self._learner.parameters.values
        self._sent_from = values.clone()
        self._said = values - anchor.reference
        self._distance = 0.0
        change = self._said if anchor.values is anchor.reference else values - anchor.values
        fields = {
            "change_norm2": norm2(change),
            "sketch": self._sketch.of(self._said),
            "change_sketch": None if change is self._said else self._sketch.of(change),
        }
        return [self._said[part] for part in self._parts], fields

    def settle(self, part: int, mean: Tensor) -> None:
        """Take the outer step for a fragment, under what was learned since it was sent."""
        where = self._parts[part]
        self._distance += norm2(self._said[where] - mean)
        values = self._learner.parameters.values
        learned = values[where] - self._sent_from[where]
        values[where] = self._anchor.settle(where, mean) + learned

    def end_round(self, turn: Turn) -> dict[str, Any]:
        """Move the anchor on; return the distance from the mean of all, where all met."""
        self._anchor.end_round(turn.meets_all)
        self._sent_from = self._said = torch.empty(0)  # room for the next round's steps
        return {"consensus_distance": self._distance if turn.meets_all else None}


class GradientEveryStep:
    """One step a round, on the mean gradient of the clique; on one's own when idle."""

    local_steps = 1

    def __init__(self, learner: Learner, sketch: CountSketch) -> None:
        self._learner = learner
        self._sketch = sketch
        self._reference = learner.parameters.values.clone()

    def step(self) -> float:
        """Compute the gradients of one batch; return its training loss."""
        return self._learner.compute_gradients()

    def messages(self, turn: Turn) -> tuple[Sequence[Tensor], dict[str, Any]]:
        """Return the gradients."""
        parameters = self._learner.parameters
        fields = {
            "change_norm2": norm2(parameters.gradients),
            "sketch": self._sketch.of(parameters.values - self._reference),
            "change_sketch": self._sketch.of(parameters.gradients),
        }
        return [parameters.gradients], fields

    def settle(self, part: int, mean: Tensor) -> None:
        """Take the clique's gradients for one's own."""
        self._learner.parameters.gradients.copy_(mean)

    def end_round(self, turn: Turn) -> dict[str, Any]:
        """Step along the gradients."""
        self._learner.optimizer.step()
        return {"consensus_distance": None}


def even_parts(length: int, count: int) -> list[slice]:
    """Return `count` slices of a vector, one after another, that differ by one element at most."""
    bounds = [length * number // count for number in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def norm2(vector: Tensor) -> float:
    """Return the square of a vector's Euclidean length."""
    return vector.square().sum().item()
