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
        anchor = outer.step(anchor, mean_change)
        oracle_parameter.grad = -mean_change
        oracle.step()
        torch.testing.assert_close(anchor, oracle_parameter.detach(), rtol=1e-5, atol=1e-6)


def test_the_plain_mean_goes_all_the_way_of_the_mean_change() -> None:
    anchor = np.array([1, -2, 3], dtype=np.float32)
    change = np.array([0.5, 0.25, -4], dtype=np.float32)
    after = PlainMean().step(torch.from_numpy(anchor), torch.from_numpy(change))
    np.testing.assert_array_equal(after.numpy(), anchor + change)
