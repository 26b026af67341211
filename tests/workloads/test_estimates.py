"""Estimates from sketches against exact values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from workloads.training.estimates import (
    Estimate,
    consensus_distance,
    consensus_of_round,
    gradient_noise,
    gradient_noise_of_round,
)
from workloads.training.sketch import CountSketch

ISLANDS = 9
LENGTH = 20_011
SIZE = 512


def exact_distance(vectors: np.ndarray) -> float:
    return float(np.square(vectors - vectors.mean(axis=0)).sum() / len(vectors))


def sketched(vectors: np.ndarray, seed: int, size: int = SIZE) -> list[list[float]]:
    sketch = CountSketch(vectors.shape[1], seed, size)
    return [sketch.of(torch.from_numpy(vector)) for vector in vectors]


def islands_apart(seed: int = 0, length: int = LENGTH) -> np.ndarray:
    """Nine vectors with much in common and differences of different sizes in each direction."""
    generator = np.random.default_rng(seed)
    apart = generator.normal(size=(ISLANDS, length)) * generator.exponential(size=length)
    return (5 * generator.normal(size=length) + apart).astype(np.float32)


def test_on_whole_vectors_the_formula_is_the_definition() -> None:
    # (1, 0) and (3, 4): the mean is (2, 2), both are 1 + 4 away from it, squared.
    assert consensus_distance([[1.0, 0.0], [3.0, 4.0]]).value == 5.0


def test_a_sketch_is_linear() -> None:
    one, two = islands_apart()[:2]
    sketch = CountSketch(LENGTH, 3)
    sums = np.array(sketch.of(torch.from_numpy(one))) + 2 * np.array(
        sketch.of(torch.from_numpy(two))
    )
    assert_allclose(sketch.of(torch.from_numpy(one + 2 * two)), sums, atol=2e-3)


def test_a_sketch_of_a_single_element_keeps_its_size() -> None:
    unit = torch.zeros(1000)
    unit[321] = -2.5
    assert sorted(map(abs, CountSketch(1000, 0).of(unit)))[-2:] == [0.0, 2.5]


def test_the_distance_from_sketches_is_within_its_stated_error_of_the_exact_one() -> None:
    vectors = islands_apart()
    for seed in range(8):
        found = consensus_distance(sketched(vectors, seed))
        assert 0.02 < found.relative_error < (2 / SIZE) ** 0.5
        assert abs(found.value / exact_distance(vectors) - 1) < 4 * found.relative_error


def test_the_stated_error_is_the_one_that_is_made_and_there_is_no_bias() -> None:
    vectors = islands_apart(length=2003)
    exact, trials = exact_distance(vectors), 400
    found = [consensus_distance(sketched(vectors, seed, 64)) for seed in range(trials)]
    errors = np.array([one.value / exact - 1 for one in found])
    stated = float(np.mean([one.relative_error for one in found]))
    assert abs(errors.mean()) < 4 * stated / trials**0.5
    assert_allclose(errors.std(), stated, rtol=0.2)


def test_islands_that_differ_along_one_line_have_the_largest_error() -> None:
    line = np.random.default_rng(1).normal(size=2003).astype(np.float32)
    vectors = np.outer(np.arange(ISLANDS, dtype=np.float32), line)
    stated = consensus_distance(sketched(vectors, 0, 64)).relative_error
    assert_allclose(stated, (2 / 64) ** 0.5, rtol=1e-5)


def test_islands_that_agree_are_no_distance_apart() -> None:
    vectors = np.repeat(islands_apart()[:1], 3, axis=0)
    assert consensus_distance(sketched(vectors, 0)) == Estimate(0.0, 0.0)


def test_what_all_have_in_common_costs_no_precision() -> None:
    vectors = islands_apart() * np.float32(1e-3) + np.float32(1.0)
    found = consensus_distance(sketched(vectors, 0))
    assert abs(found.value / exact_distance(vectors) - 1) < 4 * found.relative_error


def test_signal_and_noise_of_two_changes_by_hand() -> None:
    # Mean (2, 2), |mean|^2 = 8; apart^2 = 5, so tr(Sigma) = 5 * 2 / 1 = 10 and |G|^2 = 8 - 5 / 1.
    found = gradient_noise([[1.0, 0.0], [3.0, 4.0]])
    assert (found.signal2, found.noise2) == (3.0, 10.0)
    assert found.scale_islands == 10 / 3


def test_signal_and_noise_are_those_that_changes_were_made_of() -> None:
    generator = np.random.default_rng(0)
    signal = generator.normal(size=2003)
    deviations = generator.exponential(size=2003)
    estimates = []
    for seed in range(100):
        noise = generator.normal(size=(ISLANDS, 2003)) * deviations
        estimates.append(gradient_noise(sketched(signal + noise, seed, 64)))
    signal2 = np.mean([one.signal2 for one in estimates])
    noise2 = np.mean([one.noise2 for one in estimates])
    assert_allclose(signal2, np.square(signal).sum(), rtol=0.08)
    assert_allclose(noise2, np.square(deviations).sum(), rtol=0.04)


def test_noise_alone_has_no_scale() -> None:
    assert gradient_noise([[1.0, 0.0], [-1.0, 0.0]]).scale_islands is None


def test_where_all_met_the_distance_is_the_exact_one() -> None:
    events = [{"consensus_distance": distance, "sketch": [5.0]} for distance in (1.0, 2.0)]
    assert consensus_of_round(events) == Estimate(1.5, 0.0)


def test_where_cliques_met_the_distance_comes_from_the_sketches() -> None:
    events = [{"consensus_distance": None, "sketch": row} for row in ([1.0, 0.0], [3.0, 4.0])]
    found = consensus_of_round(events)
    assert found is not None
    assert found.value == 5.0


def test_changes_are_those_of_the_parameters_unless_told_apart() -> None:
    rows = [[1.0, 0.0], [3.0, 4.0]]
    same = [{"sketch": row, "change_sketch": None} for row in rows]
    apart = [{"sketch": [0.0, 0.0], "change_sketch": row} for row in rows]
    assert gradient_noise_of_round(same) == gradient_noise_of_round(apart) == gradient_noise(rows)


@pytest.mark.parametrize("events", [[], [{"sketch": []}, {"sketch": []}], [{}, {}]])
def test_without_sketches_nothing_is_told(events: list[dict[str, object]]) -> None:
    assert consensus_of_round(events) is None
    assert gradient_noise_of_round(events) is None


def test_sketches_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"inhomogeneous|one length"):
        consensus_distance([[1.0], [1.0, 2.0]])
