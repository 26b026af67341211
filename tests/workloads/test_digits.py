"""The digits: real images, a fixed part held out, and a network that learns them."""

from __future__ import annotations

import numpy as np
import torch

from workloads.collectives.endpoint import Endpoint
from workloads.training.digits import (
    DigitsNetwork,
    build_task,
    load_digits,
    split,
)
from workloads.training.optimizer import AdamW, AdamWSettings
from workloads.training.parameters import FlatParameters
from workloads.training.settings import Settings
from workloads.training.sync import Learner
from workloads.training.task import Task, evaluate

ALONE = Endpoint(0, 1, "127.0.0.1", 0)


def test_the_images_are_those_that_scikit_learn_loads() -> None:
    from sklearn.datasets import load_digits as load_by_library

    images, digits = load_digits()
    theirs = load_by_library()
    np.testing.assert_array_equal(16 * images.squeeze(1).numpy(), theirs.images)
    np.testing.assert_array_equal(digits.numpy(), theirs.target)


def test_a_sixth_is_held_out_and_nobody_trains_on_it() -> None:
    held_out, training = split(1797)
    assert (len(held_out), len(training)) == (299, 1498)
    assert not set(held_out.tolist()) & set(training.tolist())


def test_the_network_has_the_parameters_counted_by_hand() -> None:
    by_hand = (9 * 16 + 16) + (9 * 16 * 32 + 32) + (512 * 64 + 64) + (64 * 10 + 10)
    assert sum(p.numel() for p in DigitsNetwork().parameters()) == by_hand == 38_282


def test_workers_share_out_the_held_out_images() -> None:
    tasks = [build_task(Settings(), Endpoint(rank, 4, "127.0.0.1", 1)) for rank in range(4)]
    assert sum(len(task.held_out[0]) for task in tasks) == 299
    few = build_task(Settings(held_out_windows=3), Endpoint(3, 4, "127.0.0.1", 1))
    assert evaluate(few) == {
        "held_out_loss": None,
        "held_out_windows": 0,
        "held_out_accuracy": None,
    }


def trained(task: Task, steps: int) -> Task:
    parameters = FlatParameters(task.model)
    learner = Learner(task, parameters, AdamW(parameters, AdamWSettings(learning_rate=2e-3)))
    for _ in range(steps):
        learner.compute_gradients()
        learner.optimizer.step()
    return task


def test_the_network_learns_to_tell_digits_apart() -> None:
    torch.set_num_threads(1)
    task = build_task(Settings(batch_size=32), ALONE)
    before = evaluate(task)
    after = evaluate(trained(task, 150))
    assert 2.2 < before["held_out_loss"] < 2.4  # the loss of guessing is ln 10
    assert after["held_out_loss"] < 0.5
    assert after["held_out_accuracy"] > 0.85
