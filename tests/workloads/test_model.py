"""The transformer: its size by hand arithmetic, and that it cannot look ahead."""

from __future__ import annotations

import math

import pytest
import torch

from workloads.training.data import load_corpus
from workloads.training.model import PRESETS, build_model, cross_entropy
from workloads.training.settings import PRESET_NAMES


def parameters_by_hand(layers: int, width: int, context: int, vocabulary: int) -> int:
    norm = 2 * width
    attention = (3 * width * width + 3 * width) + (width * width + width)
    mlp = (4 * width * width + 4 * width) + (4 * width * width + width)
    block = norm + attention + norm + mlp
    return vocabulary * width + context * width + layers * block + norm


@pytest.mark.parametrize(("preset", "count"), [("tiny", 108_864), ("small", 810_880)])
def test_the_parameters_are_as_many_as_arithmetic_says(preset: str, count: int) -> None:
    shape = PRESETS[preset]
    vocabulary = len(load_corpus().vocabulary)
    model = build_model(shape, vocabulary, seed=0)
    assert parameters_by_hand(shape.layers, shape.width, shape.context, vocabulary) == count
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_the_presets_are_those_of_the_command_line() -> None:
    assert tuple(PRESETS) == PRESET_NAMES


def test_no_character_is_predicted_from_a_later_one() -> None:
    model = build_model(PRESETS["tiny"], 73, seed=0)
    tokens = torch.arange(64).remainder(73)[None, :]
    changed = tokens.clone()
    changed[0, 40:] = 7
    before, after = model(tokens), model(changed)
    assert torch.allclose(before[0, :40], after[0, :40], atol=1e-6)
    assert not torch.allclose(before[0, 40:], after[0, 40:], atol=1e-3)


def test_an_untrained_model_knows_as_good_as_nothing() -> None:
    model = build_model(PRESETS["tiny"], 73, seed=0)
    tokens = torch.randint(0, 73, (4, 65))
    loss = cross_entropy(model, tokens[:, :-1], tokens[:, 1:]).item()
    assert loss == pytest.approx(math.log(73), abs=0.1)


def test_the_seed_decides_the_initial_parameters() -> None:
    first, again, other = (build_model(PRESETS["tiny"], 73, seed) for seed in (3, 3, 4))
    weights = [model.characters.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
