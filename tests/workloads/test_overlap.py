"""Exchanging behind the computation: what is put to use when, whatever the network's haste."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from workloads.errors import CollectiveError
from workloads.training.optimizer import AdamW, DilocoNesterov, OuterOptimizer, PlainMean
from workloads.training.parameters import FlatParameters
from workloads.training.rotation import Turn
from workloads.training.rounds import in_turn, overlapped
from workloads.training.schedule import ScheduledClique
from workloads.training.sketch import CountSketch
from workloads.training.sync import Learner, LocalSteps, even_parts

PAIR = ScheduledClique("exchange", (0, 1))
LENGTH = 10


class Other:
    """A collective with one other member, who says the same in every round; slow if asked to be."""

    members = (0, 1)

    def __init__(self, said: Tensor, longest_s: float = 0.0) -> None:
        self._said = said
        self._longest_s = longest_s
        self._at = 0

    def allreduce(self, tensor: Tensor, name: str = "") -> Tensor:
        time.sleep(random.uniform(0, self._longest_s))
        said = self._said[self._at : self._at + len(tensor)]
        self._at = (self._at + len(tensor)) % len(self._said)
        return (tensor + said) / 2

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


class Diary:
    """Work that writes down in which order it is asked for things."""

    def __init__(self, local_steps: int, fragments: int) -> None:
        self.local_steps = local_steps
        self._fragments = fragments
        self.lines: list[str] = []

    def step(self) -> float:
        self.lines.append("step")
        return 1.0

    def messages(self, turn: Turn) -> tuple[Sequence[Tensor], dict[str, Any]]:
        self.lines.append(f"send {turn.number}")
        return [torch.full((1,), float(part)) for part in range(self._fragments)], {}

    def settle(self, part: int, mean: Tensor) -> None:
        self.lines.append(f"settle {part}")

    def end_round(self, turn: Turn) -> dict[str, Any]:
        self.lines.append(f"end {turn.number}")
        return {}


def turns(rounds: int, collective: Other, idle: Sequence[int] = ()) -> list[Turn]:
    return [
        Turn(n, 0, None, None, False) if n in idle else Turn(n, 0, PAIR, collective, True)
        for n in range(rounds)
    ]


def diary(local_steps: int, fragments: int, idle: Sequence[int] = ()) -> list[str]:
    work = Diary(local_steps, fragments)
    list(overlapped(work, turns(2, Other(torch.zeros(fragments)), idle)))
    return work.lines


def test_fragments_are_put_to_use_after_the_steps_they_are_due_after() -> None:
    sent = ["step"] * 4 + ["send 0"]
    during = ["step", "step", "settle 0", "step", "step", "settle 1", "end 0", "send 1"]
    assert diary(4, 2) == [*sent, *during, "settle 0", "settle 1", "end 1"]


def test_fragments_that_do_not_divide_the_steps_are_due_after_the_next_whole_one() -> None:
    # Fragment f of 2 is due after step ceil((f + 1) * 3 / 2): 2 and 3.
    lines = diary(3, 2)
    assert lines[4:10] == ["step", "step", "settle 0", "step", "settle 1", "end 0"]


def test_more_fragments_than_steps_are_put_to_use_several_at_a_time() -> None:
    assert diary(1, 3)[2:7] == ["step", "settle 0", "settle 1", "settle 2", "end 0"]


def test_an_idle_round_has_nothing_to_put_to_use() -> None:
    assert diary(2, 2, idle=[0]) == [
        *("step", "step", "send 0", "step", "step", "end 0"),
        *("send 1", "settle 0", "settle 1", "end 1"),
    ]


class Drift:
    """An inner optimizer whose every step adds the same to the parameters."""

    def __init__(self, values: Tensor) -> None:
        self._values = values
        self._step = torch.linspace(0.1, 1, LENGTH)

    def step(self) -> None:
        self._values += self._step


class Drifting(Learner):
    """A learner of ten parameters that only drifts."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.parameters = FlatParameters(nn.Linear(LENGTH, 1, bias=False))
        self.optimizer: AdamW = Drift(self.parameters.values)  # type: ignore[assignment]

    def compute_gradients(self) -> float:
        return 0.0


def train(
    outer: OuterOptimizer, rounds: int, fragments: int, longest_s: float = 0.0, overlap: bool = True
) -> tuple[Tensor, Tensor]:
    """Return the initial and the final parameters of an island that meets another."""
    learner = Drifting()
    initial = learner.parameters.values.clone()
    work = LocalSteps(learner, outer, 4, CountSketch(LENGTH, 0), fragments)
    ways = turns(rounds, Other(torch.linspace(-1, 1, LENGTH), longest_s))
    list(overlapped(work, ways) if overlap else in_turn(work, ways))
    return initial, learner.parameters.values


def by_definition(initial: np.ndarray, rounds: int, fragments: int) -> np.ndarray:
    """DiLoCo with delayed fragments, written out in float64."""
    step, other = np.linspace(0.1, 1, LENGTH), np.linspace(-1, 1, LENGTH)
    x, anchor, velocity = initial.copy(), initial.copy(), np.zeros(LENGTH)
    sent: np.ndarray | None = None
    parts = even_parts(LENGTH, fragments)

    def settle(part: slice) -> None:
        assert sent is not None
        gradient = -((sent - anchor)[part] + other[part]) / 2
        velocity[part] = 0.9 * velocity[part] + gradient
        after = anchor[part] - 0.7 * (gradient + 0.9 * velocity[part])
        x[part] = after + (x[part] - sent[part])
        anchor[part] = after

    for _ in range(rounds):
        for taken in range(1, 5):
            x += step
            for part in range(fragments):
                if sent is not None and taken == -(-(part + 1) * 4 // fragments):
                    settle(parts[part])
        sent = x.copy()
    for where in parts:
        settle(where)
    return np.asarray(x)


@pytest.mark.parametrize("fragments", [1, 2, 3, 5])
def test_overlapped_training_is_what_its_definition_says(fragments: int) -> None:
    initial, final = train(DilocoNesterov(), 4, fragments)
    expected = by_definition(initial.double().numpy(), 4, fragments)
    np.testing.assert_allclose(final.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_the_networks_haste_changes_no_bit() -> None:
    finals = [train(DilocoNesterov(), 5, 3, longest_s)[1] for longest_s in (0.0, 0.02, 0.005)]
    assert torch.equal(finals[0], finals[1])
    assert torch.equal(finals[0], finals[2])


def test_what_was_learned_meanwhile_is_kept() -> None:
    # The means of round 0 are put to use late, and those of round 1 without any step after them.
    initial, final = train(PlainMean(), 2, 1)
    drift, other = 4 * torch.linspace(0.1, 1, LENGTH), torch.linspace(-1, 1, LENGTH)
    first = initial + (drift + other) / 2
    torch.testing.assert_close(final, first + (drift + other) / 2)


def test_without_overlap_each_round_sees_the_one_before() -> None:
    one, other = (train(PlainMean(), 1, 3, overlap=overlap)[1] for overlap in (True, False))
    assert torch.equal(one, other)


class Slow(Other):
    """A collective that keeps everybody waiting."""

    def allreduce(self, tensor: Tensor, name: str = "") -> Tensor:
        time.sleep(0.2)
        return tensor


def test_waiting_for_a_late_fragment_is_told_as_exposed() -> None:
    for log in overlapped(Diary(1, 1), turns(2, Slow(torch.zeros(1)))):
        fields = log.fields()
        assert fields["exposed_s"] > 0
        assert fields["sync_end"] - fields["sync_start"] > 0.19
        assert [set(fragment) for fragment in fields["fragments"]] == [{"start", "end"}]


class Broken(Other):
    """A collective that lost its peer."""

    def allreduce(self, tensor: Tensor, name: str = "") -> Tensor:
        raise CollectiveError(f"lost LON (rank 1) in {name}")


def test_a_peer_lost_in_the_background_is_an_error_in_the_foreground() -> None:
    with pytest.raises(CollectiveError, match=r"lost LON \(rank 1\) in fragment 0"):
        list(overlapped(Diary(1, 2), turns(2, Broken(torch.zeros(2)))))
