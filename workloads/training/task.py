"""What a model is to learn: the one interface behind which the trained workloads stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


class Batches(Protocol):
    """Endless batches from one island's shard."""

    def next(self) -> tuple[Tensor, Tensor]:
        """Return inputs and targets."""


@dataclass(frozen=True)
class Task:
    """A model with an island's part of the data.

    Attributes:
        model: its initial parameters are those of all islands.
        batches: of this island's shard.
        held_out: inputs and targets of this island's share of what nobody trains on.
        loss: of a model on some inputs and targets.
        loss_unit: such as "nats a character".
        tells_accuracy: whether the share of right answers is a measure of this task.
        sizes: what the `start` event says of it.
    """

    model: nn.Module
    batches: Batches
    held_out: tuple[Tensor, Tensor]
    loss: Loss
    loss_unit: str
    tells_accuracy: bool = False
    sizes: Mapping[str, Any] = field(default_factory=dict)


def evaluate(task: Task) -> dict[str, Any]:
    """Return the fields of an event that say how good a model is on its held-out share."""
    inputs, targets = task.held_out
    fields: dict[str, Any] = {"held_out_loss": None, "held_out_windows": len(inputs)}
    if task.tells_accuracy:
        fields["held_out_accuracy"] = None
    if not len(inputs):
        return fields
    with torch.no_grad():
        fields["held_out_loss"] = task.loss(task.model, inputs, targets).item()
        if task.tells_accuracy:
            right = task.model(inputs).argmax(dim=-1) == targets
            fields["held_out_accuracy"] = right.float().mean().item()
    return fields
