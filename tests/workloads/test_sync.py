"""What a round does to the parameters, against numpy."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from workloads.training.data import Batches, load_corpus, shard_blocks
from workloads.training.model import PRESETS, build_model, cross_entropy
from workloads.training.optimizer import AdamW, AdamWSettings, PlainMean
from workloads.training.parameters import FlatParameters
from workloads.training.sync import GradientEveryStep, Learner, LocalSteps


class MeanWith:
    """A collective whose other members hold fixed tensors; it keeps what it was given."""

    def __init__(self, *others: np.ndarray) -> None:
        self.others = others
        self.given = np.zeros(0, dtype=np.float32)

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(range(1 + len(self.others)))

    def allreduce(self, tensor: Tensor, name: str = "") -> Tensor:
        self.given = tensor.numpy().copy()
        total = np.sum([self.given, *self.others], axis=0, dtype=np.float64)
        return torch.from_numpy((total / len(self.members)).astype(np.float32))


def learner(rank: int = 0) -> Learner:
    corpus = load_corpus()
    model = build_model(PRESETS["tiny"], len(corpus.vocabulary), seed=0)
    parameters = FlatParameters(model)
    batches = Batches(shard_blocks(corpus, rank, 3, 0), 64, 2, (0, rank))
    return Learner(model, parameters, AdamW(parameters, AdamWSettings()), batches)


def others_like(parameters: FlatParameters, count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [
        generator.normal(scale=1e-3, size=len(parameters)).astype(np.float32) for _ in range(count)
    ]


def test_what_is_exchanged_is_the_change_since_the_last_exchange() -> None:
    island = learner()
    before = island.parameters.values.numpy().copy()
    collective = MeanWith()
    synchronization = LocalSteps(island, PlainMean(), local_steps=2)
    synchronization.work_locally()
    after = island.parameters.values.numpy().copy()
    synchronization.synchronize(collective)
    np.testing.assert_array_equal(collective.given, after - before)
    assert np.abs(collective.given).max() > 0


def test_after_the_exchange_an_island_holds_the_mean_of_the_changes() -> None:
    island = learner()
    before = island.parameters.values.numpy().copy()
    others = others_like(island.parameters, 2)
    synchronization = LocalSteps(island, PlainMean(), local_steps=2)
    synchronization.work_locally()
    mine = island.parameters.values.numpy() - before
    synchronization.synchronize(MeanWith(*others))
    expected = before + (mine + others[0] + others[1]) / 3
    np.testing.assert_allclose(island.parameters.values.numpy(), expected, rtol=0, atol=1e-7)


def test_the_distance_is_that_of_the_island_from_the_mean_squared() -> None:
    island = learner()
    before = island.parameters.values.numpy().copy()
    others = others_like(island.parameters, 2)
    synchronization = LocalSteps(island, PlainMean(), local_steps=1)
    synchronization.work_locally()
    mine = (island.parameters.values.numpy() - before).astype(np.float64)
    distance = synchronization.synchronize(MeanWith(*others))
    expected = np.square(mine - (mine + others[0] + others[1]) / 3).sum()
    assert distance is not None
    np.testing.assert_allclose(distance, expected, rtol=1e-4)


def test_the_next_round_starts_from_the_common_parameters() -> None:
    island = learner()
    synchronization = LocalSteps(island, PlainMean(), local_steps=1)
    synchronization.work_locally()
    synchronization.synchronize(MeanWith(*others_like(island.parameters, 1)))
    common = island.parameters.values.numpy().copy()
    collective = MeanWith()
    synchronization.work_locally()
    moved = island.parameters.values.numpy().copy()
    synchronization.synchronize(collective)
    np.testing.assert_array_equal(collective.given, moved - common)


def test_without_local_steps_it_is_the_mean_gradient_that_is_stepped_along() -> None:
    island, twin = learner(), learner()
    other = others_like(island.parameters, 1)[0]
    synchronization = GradientEveryStep(island)
    synchronization.work_locally()
    twin.compute_gradients()
    mine = twin.parameters.gradients.numpy().copy()
    assert synchronization.synchronize(MeanWith(other)) is None
    twin.parameters.gradients.copy_(torch.from_numpy((mine + other) / 2))
    twin.optimizer.step()
    torch.testing.assert_close(island.parameters.values, twin.parameters.values)


def test_the_model_and_the_vector_are_one_memory() -> None:
    corpus = load_corpus()
    model = build_model(PRESETS["tiny"], len(corpus.vocabulary), seed=0)
    untouched = copy.deepcopy(model)
    parameters = FlatParameters(model)
    tokens = torch.arange(65)[None, :]
    expected = cross_entropy(untouched, tokens[:, :-1], tokens[:, 1:])
    torch.autograd.backward(expected)
    loss = cross_entropy(model, tokens[:, :-1], tokens[:, 1:])
    torch.autograd.backward(loss)
    assert torch.equal(loss, expected)
    norms = [p.grad.square().sum() for p in untouched.parameters() if p.grad is not None]
    torch.testing.assert_close(parameters.gradients.square().sum(), torch.stack(norms).sum())
    parameters.values.zero_()
    assert all(not parameter.any() for parameter in model.parameters())
