"""Local work, then a collective: the two phases of a round, kept apart so that each can be timed.

`LocalSteps` takes H steps of AdamW alone and then lets the islands average what changed.
`GradientEveryStep` is the baseline without any local freedom: the gradients of each single step
are averaged, as `DistributedDataParallel` does it.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

from workloads.collectives.base import Collective
from workloads.training.data import Batches
from workloads.training.model import cross_entropy
from workloads.training.optimizer import AdamW, OuterOptimizer
from workloads.training.parameters import FlatParameters


class Learner:
    """A model on an island with its parameters, its optimizer and its shard of the data."""

    def __init__(
        self, model: nn.Module, parameters: FlatParameters, optimizer: AdamW, batches: Batches
    ) -> None:
        self._model = model
        self._batches = batches
        self.parameters = parameters
        self.optimizer = optimizer

    def compute_gradients(self) -> float:
        """Put the gradients of the next batch into the parameters; return its loss."""
        self.parameters.gradients.zero_()
        loss = cross_entropy(self._model, *self._batches.next())
        torch.autograd.backward(loss)
        return loss.item()


class Synchronization(Protocol):
    """The two phases of a round."""

    def work_locally(self) -> float:
        """Compute on this island alone; return the mean training loss."""

    def synchronize(self, collective: Collective) -> float | None:
        """Exchange and step.

        Returns:
            The square of the Euclidean distance from this island's parameters to the islands' mean
            before the exchange; None where the parameters never part. The mean of it over the
            islands is the consensus distance.
        """


class LocalSteps:
    """H local steps, then the outer step on the mean change."""

    def __init__(self, learner: Learner, outer: OuterOptimizer, local_steps: int) -> None:
        self._learner = learner
        self._outer = outer
        self._local_steps = local_steps
        self._anchor = learner.parameters.values.clone()

    def work_locally(self) -> float:
        """Take the local steps; return the mean of their training losses."""
        losses = 0.0
        for _ in range(self._local_steps):
            losses += self._learner.compute_gradients()
            self._learner.optimizer.step()
        return losses / self._local_steps

    def synchronize(self, collective: Collective) -> float | None:
        """Average the changes since the last exchange and take the outer step from there."""
        values = self._learner.parameters.values
        change = values - self._anchor
        mean_change = collective.allreduce(change, "the change of the parameters")
        distance = (change - mean_change).square().sum().item()
        self._anchor = self._outer.step(self._anchor, mean_change)
        values.copy_(self._anchor)
        return distance


class GradientEveryStep:
    """One step a round, on the mean gradient."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner

    def work_locally(self) -> float:
        """Compute the gradients of one batch; return its training loss."""
        return self._learner.compute_gradients()

    def synchronize(self, collective: Collective) -> float | None:
        """Average the gradients and step along the mean."""
        gradients = self._learner.parameters.gradients
        gradients.copy_(collective.allreduce(gradients, "the gradients"))
        self._learner.optimizer.step()
        return None
