"""The local step on an island, and the outer step that the islands take together.

Local: AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019) with
nanoGPT's settings. PyTorch's function does the arithmetic; its `Optimizer` class would load
TorchDynamo, which costs every worker two seconds and 75 MB at its start.

Outer: what to make of a clique's mean. `PlainMean` takes it: local SGD, or federated averaging.
`DilocoNesterov` takes the way to it for a gradient and descends with Nesterov momentum (Douillard
et al., "DiLoCo: Distributed low-communication training of language models", arXiv 2311.08105).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from workloads.training.parameters import FlatParameters


@dataclass(frozen=True)
class AdamWSettings:
    """What AdamW is given; the learning rate stays the same through the run."""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.1


class AdamW:
    """AdamW on a flat vector of parameters; its moments stay on the island."""

    def __init__(self, parameters: FlatParameters, settings: AdamWSettings) -> None:
        matrices = slice(parameters.decayed_count)
        others = slice(parameters.decayed_count, None)
        self._settings = settings
        self._parts = [
            _Part.of(parameters, matrices, settings.weight_decay),
            _Part.of(parameters, others, 0.0),
        ]

    def step(self) -> None:
        """Change the parameters by one step along the gradients."""
        with torch.no_grad():
            for part in self._parts:
                part.step(self._settings)


@dataclass(frozen=True)
class _Part:
    """A stretch of the parameters that share a weight decay, and what AdamW remembers of it."""

    values: Tensor
    gradients: Tensor
    first_moment: Tensor
    second_moment: Tensor
    step_count: Tensor
    weight_decay: float

    @classmethod
    def of(cls, parameters: FlatParameters, stretch: slice, weight_decay: float) -> _Part:
        values = parameters.values[stretch]
        return cls(
            values=values,
            gradients=parameters.gradients[stretch],
            first_moment=torch.zeros_like(values),
            second_moment=torch.zeros_like(values),
            step_count=torch.tensor(0.0),
            weight_decay=weight_decay,
        )

    def step(self, settings: AdamWSettings) -> None:
        adamw(
            params=[self.values],
            grads=[self.gradients],
            exp_avgs=[self.first_moment],
            exp_avg_sqs=[self.second_moment],
            max_exp_avg_sqs=[],
            state_steps=[self.step_count],
            foreach=False,
            amsgrad=False,
            beta1=settings.beta1,
            beta2=settings.beta2,
            lr=settings.learning_rate,
            weight_decay=self.weight_decay,
            eps=settings.epsilon,
            maximize=False,
        )


class OuterOptimizer(Protocol):
    """How the mean of a clique becomes an island's next parameters."""

    def step(self, part: slice, anchor: Tensor, reference: Tensor, mean: Tensor) -> Tensor:
        """Return the next parameters of one part of the vector, in a new tensor.

        Args:
            part: which part, each in turn in every round.
            anchor: where this island began its local steps.
            reference: what the clique's mean is told relative to; the same on all islands.
            mean: the mean over the clique of parameters minus reference.
        """


class PlainMean:
    """The clique's mean parameters, as in federated averaging; the same bits on all its members."""

    def step(self, part: slice, anchor: Tensor, reference: Tensor, mean: Tensor) -> Tensor:
        """Return the next parameters of one part of the vector, in a new tensor."""
        return reference + mean


class DilocoNesterov:
    """DiLoCo's outer step: what leads from the anchor to the mean is taken for a gradient, negated.

    The defaults of the two settings are the paper's. Where islands begin from different anchors,
    that gradient is the sum of two: what training wants to change, and how far this island's anchor
    is from its clique's. So disagreement shrinks by the same momentum step by which the model
    learns, as in NoLoCo (arXiv 2506.10911) with both weighed alike. The velocity stays at home.
    """

    def __init__(self, learning_rate: float = 0.7, momentum: float = 0.9) -> None:
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._velocities: dict[tuple[int, int], Tensor] = {}

    def step(self, part: slice, anchor: Tensor, reference: Tensor, mean: Tensor) -> Tensor:
        """Return the next parameters of one part of the vector, in a new tensor."""
        gradient = (anchor - reference) - mean
        key = (part.start, part.stop)
        previous = self._velocities.get(key)
        velocity = gradient if previous is None else self._momentum * previous + gradient
        self._velocities[key] = velocity
        descent = self._momentum * velocity + gradient
        return anchor - self._learning_rate * descent
