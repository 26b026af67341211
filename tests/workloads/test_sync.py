"""What a round does to the parameters, against numpy."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from workloads.collectives.endpoint import Endpoint
from workloads.training.characters import build_task
from workloads.training.data import load_corpus
from workloads.training.model import PRESETS, build_model, cross_entropy
from workloads.training.optimizer import AdamW, AdamWSettings, PlainMean
from workloads.training.parameters import FlatParameters
from workloads.training.rotation import Turn
from workloads.training.rounds import RoundLog, Work, in_turn
from workloads.training.schedule import ScheduledClique
from workloads.training.settings import Settings
from workloads.training.sketch import CountSketch
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

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


def learner(rank: int = 0) -> Learner:
    settings = Settings(preset="tiny", batch_size=2)
    task = build_task(settings, Endpoint(rank, 3, "127.0.0.1", 1))
    parameters = FlatParameters(task.model)
    return Learner(task, parameters, AdamW(parameters, AdamWSettings()))


def local_steps(island: Learner, steps: int) -> LocalSteps:
    return LocalSteps(island, PlainMean(), steps, CountSketch(len(island.parameters), 0))


def meeting(collective: MeanWith | None, number: int = 0, all_meet: bool = True) -> Turn:
    clique = None if collective is None else ScheduledClique("exchange", collective.members)
    return Turn(number, 0, clique, collective, all_meet and collective is not None)


def one_round(work: Work, turn: Turn) -> RoundLog:
    (log,) = in_turn(work, [turn])
    return log


def others_like(parameters: FlatParameters, count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [
        generator.normal(scale=1e-3, size=len(parameters)).astype(np.float32) for _ in range(count)
    ]


def after_two_steps() -> tuple[np.ndarray, np.ndarray]:
    """Return the parameters before and after two local steps alone."""
    twin = learner()
    before = twin.parameters.values.numpy().copy()
    for _ in range(2):
        twin.compute_gradients()
        twin.optimizer.step()
    return before, twin.parameters.values.numpy()


def test_what_is_exchanged_is_the_change_since_the_last_exchange() -> None:
    before, after = after_two_steps()
    collective = MeanWith()
    one_round(local_steps(learner(), 2), meeting(collective))
    np.testing.assert_array_equal(collective.given, after - before)
    assert np.abs(collective.given).max() > 0


def test_after_the_exchange_an_island_holds_the_mean_of_the_changes() -> None:
    before, after = after_two_steps()
    island = learner()
    others = others_like(island.parameters, 2)
    one_round(local_steps(island, 2), meeting(MeanWith(*others)))
    expected = before + (after - before + others[0] + others[1]) / 3
    np.testing.assert_allclose(island.parameters.values.numpy(), expected, rtol=0, atol=1e-7)


def test_the_distance_is_that_of_the_island_from_the_mean_squared() -> None:
    before, after = after_two_steps()
    island = learner()
    others = others_like(island.parameters, 2)
    log = one_round(local_steps(island, 2), meeting(MeanWith(*others)))
    mine = (after - before).astype(np.float64)
    expected = np.square(mine - (mine + others[0] + others[1]) / 3).sum()
    np.testing.assert_allclose(log.noted["consensus_distance"], expected, rtol=1e-4)
    np.testing.assert_allclose(log.noted["change_norm2"], np.square(mine).sum(), rtol=1e-4)


def test_the_distance_from_a_part_of_the_islands_is_not_told_as_that_from_all() -> None:
    island = learner()
    partial = meeting(MeanWith(*others_like(island.parameters, 1)), all_meet=False)
    log = one_round(local_steps(island, 1), partial)
    assert log.noted["consensus_distance"] is None


def test_the_next_round_starts_from_the_common_parameters() -> None:
    island = learner()
    work, collective = local_steps(island, 1), MeanWith()
    one_round(work, meeting(MeanWith(*others_like(island.parameters, 1))))
    common = island.parameters.values.numpy().copy()
    one_round(work, meeting(collective, 1))
    moved = island.parameters.values.numpy()
    np.testing.assert_allclose(collective.given, moved - common, rtol=0, atol=1e-7)


def test_after_a_part_has_met_parameters_are_averaged_and_not_changes() -> None:
    island = learner()
    initial = island.parameters.values.numpy().copy()
    work, collective = local_steps(island, 1), MeanWith()
    one_round(work, meeting(MeanWith(*others_like(island.parameters, 1)), all_meet=False))
    one_round(work, meeting(collective, 1, all_meet=False))
    held = island.parameters.values.numpy()
    np.testing.assert_allclose(collective.given, held - initial, rtol=0, atol=1e-7)


def test_an_idle_island_trains_on() -> None:
    _, after = after_two_steps()
    island = learner()
    log = one_round(local_steps(island, 2), meeting(None))
    np.testing.assert_array_equal(island.parameters.values.numpy(), after)
    fields = log.fields()
    assert (fields["kind"], fields["exposed_s"] < 0.01) == (None, True)


def test_without_local_steps_it_is_the_mean_gradient_that_is_stepped_along() -> None:
    island, twin = learner(), learner()
    other = others_like(island.parameters, 1)[0]
    work = GradientEveryStep(island, CountSketch(len(island.parameters), 0))
    log = one_round(work, meeting(MeanWith(other)))
    assert log.noted["consensus_distance"] is None
    twin.compute_gradients()
    mine = twin.parameters.gradients.numpy().copy()
    twin.parameters.gradients.copy_(torch.from_numpy((mine + other) / 2))
    twin.optimizer.step()
    torch.testing.assert_close(island.parameters.values, twin.parameters.values)


def test_without_local_steps_an_idle_island_takes_its_own() -> None:
    island, twin = learner(), learner()
    one_round(GradientEveryStep(island, CountSketch(len(island.parameters), 0)), meeting(None))
    twin.compute_gradients()
    twin.optimizer.step()
    assert torch.equal(island.parameters.values, twin.parameters.values)


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
