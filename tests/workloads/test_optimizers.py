"""The optimizers against PyTorch's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from workloads.training.optimizer import AdamW, AdamWSettings, DilocoNesterov, PlainMean
from workloads.training.parameters import FlatParameters


def small_network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.GELU(), nn.Linear(7, 3))


def test_adamw_on_the_flat_vector_is_pytorchs_adamw_with_decay_on_matrices_only() -> None:
    ours, theirs = small_network(), small_network()
    flat = FlatParameters(ours)
    optimizer = AdamW(flat, AdamWSettings(learning_rate=0.01))
    groups: list[dict[str, Any]] = [
        {"params": [p for p in theirs.parameters() if p.dim() >= 2]},
        {"params": [p for p in theirs.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    oracle = torch.optim.AdamW(
        groups,
        lr=0.01,
        betas=(0.9, 0.99),
        weight_decay=0.1,
    )
    inputs = torch.randn(4, 5)
    for _ in range(5):
        flat.gradients.zero_()
        oracle.zero_grad()
        ours(inputs).square().sum().backward()
        theirs(inputs).square().sum().backward()
        optimizer.step()
        oracle.step()
    for mine, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-7)


def test_dilocos_outer_step_is_sgd_with_nesterov_momentum() -> None:
    generator = torch.Generator().manual_seed(2)
    anchor = torch.randn(50, generator=generator)
    oracle_parameter = nn.Parameter(anchor.clone())
    oracle = torch.optim.SGD([oracle_parameter], lr=0.7, momentum=0.9, nesterov=True)
    outer = DilocoNesterov()
    for _ in range(6):
        mean_change = torch.randn(50, generator=generator)
        anchor = outer.step(slice(0, 50), anchor, anchor, mean_change)
        oracle_parameter.grad = -mean_change
        oracle.step()
        torch.testing.assert_close(anchor, oracle_parameter.detach(), rtol=1e-5, atol=1e-6)


def test_learning_rate_and_momentum_of_the_outer_step_can_be_set() -> None:
    # Velocity 1, then 0.5 * 1 + 1 = 1.5: steps of 0.1 * (1 + 0.5 * 1) and 0.1 * (1 + 0.5 * 1.5).
    outer, anchor, minus_one = DilocoNesterov(0.1, 0.5), torch.zeros(1), -torch.ones(1)
    anchor = outer.step(slice(0, 1), anchor, anchor, minus_one)
    torch.testing.assert_close(anchor, torch.tensor([-0.15]))
    anchor = outer.step(slice(0, 1), anchor, anchor, minus_one)
    torch.testing.assert_close(anchor, torch.tensor([-0.325]))


def test_parts_of_the_vector_have_velocities_of_their_own() -> None:
    whole, parts = DilocoNesterov(), DilocoNesterov()
    generator = torch.Generator().manual_seed(3)
    anchor = torch.randn(7, generator=generator)
    for _ in range(3):
        change = torch.randn(7, generator=generator)
        expected = whole.step(slice(0, 7), anchor, anchor, change)
        two = [parts.step(p, anchor[p], anchor[p], change[p]) for p in (slice(0, 3), slice(3, 7))]
        anchor = expected
        assert torch.equal(torch.cat(two), expected)


def test_the_plain_mean_is_the_mean_wherever_the_island_began() -> None:
    reference = np.array([1, -2, 3], dtype=np.float32)
    mean = np.array([0.5, 0.25, -4], dtype=np.float32)
    for anchor in (torch.zeros(3), torch.ones(3)):
        after = PlainMean().step(
            slice(0, 3), anchor, torch.from_numpy(reference), torch.from_numpy(mean)
        )
        np.testing.assert_array_equal(after.numpy(), reference + mean)
