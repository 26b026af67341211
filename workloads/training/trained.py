"""The workloads that train a model: a task, a local optimizer and a way to agree with others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from workloads.collectives.base import Collective
from workloads.collectives.endpoint import Endpoint
from workloads.training import characters, digits
from workloads.training.optimizer import (
    AdamW,
    AdamWSettings,
    DilocoNesterov,
    OuterOptimizer,
    PlainMean,
)
from workloads.training.parameters import FlatParameters
from workloads.training.rotation import Turn
from workloads.training.rounds import RoundLog, Work, in_turn, overlapped
from workloads.training.settings import Settings
from workloads.training.sketch import SKETCH_SIZE, CountSketch
from workloads.training.sync import GradientEveryStep, Learner, LocalSteps
from workloads.training.task import evaluate

TASKS = {"characters": characters.build_task, "digits": digits.build_task}


class Trained:
    """One island's model, its data and its way to agree with others."""

    def __init__(self, settings: Settings, endpoint: Endpoint) -> None:
        self._settings = settings
        self._task = TASKS[settings.workload](settings, endpoint)
        self._parameters = FlatParameters(self._task.model)
        optimizer = AdamW(self._parameters, AdamWSettings(learning_rate=settings.learning_rate))
        learner = Learner(self._task, self._parameters, optimizer)
        self._work = _work(settings, learner)

    @property
    def message_bytes(self) -> int:
        """Bytes that an island contributes to a round."""
        return self._parameters.message_bytes

    def identity(self) -> str:
        """Return what all workers must have in common: the initial parameters."""
        return f"initial_parameters={self._parameters.sha256()[:16]}"

    def description(self) -> dict[str, Any]:
        """Return the task's sizes and units."""
        return {
            "parameters": len(self._parameters),
            "loss_unit": self._task.loss_unit,
            "sketch_size": SKETCH_SIZE,
            **self._task.sizes,
        }

    def rounds(self, turns: Iterable[Turn]) -> Iterator[RoundLog]:
        """Train round by round."""
        overlaps = self._settings.overlap_fragments > 0
        return overlapped(self._work, turns) if overlaps else in_turn(self._work, turns)

    def evaluate(self) -> dict[str, Any]:
        """Return how good the model is on this island's share of what is held out."""
        return evaluate(self._task)

    def unite(self, collective: Collective) -> None:
        """Take the mean of all islands' parameters."""
        values = self._parameters.values
        values.copy_(collective.allreduce(values, "the parameters"))

    def sha256(self) -> str:
        """Return the SHA-256 of the parameters."""
        return self._parameters.sha256()


def _work(settings: Settings, learner: Learner) -> Work:
    sketch = CountSketch(len(learner.parameters), settings.seed)
    if settings.outer == "none":
        return GradientEveryStep(learner, sketch)
    fragments = max(settings.overlap_fragments, 1)
    return LocalSteps(learner, _outer(settings), settings.local_steps, sketch, fragments)


def _outer(settings: Settings) -> OuterOptimizer:
    if settings.outer == "mean":
        return PlainMean()
    return DilocoNesterov(settings.outer_learning_rate, settings.outer_momentum)
