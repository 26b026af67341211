"""How a worker goes through its rounds: one after another, or with the network behind its back.

`in_turn` computes, then exchanges, then computes again. `overlapped` is the way of Streaming DiLoCo
(Douillard et al., arXiv 2501.18512): what a round has to say goes out in fragments, in a thread of
its own, while the next round's local steps run. Fragment f of N is put to use after local step
ceil((f + 1) H / N) of those H steps, whether it came early or has to be waited for. So what a run
computes depends on counts of steps, never on times.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from torch import Tensor

from workloads.collectives.base import Collective
from workloads.training.records import Moment, Stopwatch
from workloads.training.rotation import Turn


class Work(Protocol):
    """What an island computes, and what it has to say in each round."""

    local_steps: int

    def step(self) -> float | None:
        """Take one local step; return its training loss, if there is such a thing."""

    def messages(self, turn: Turn) -> tuple[Sequence[Tensor], dict[str, Any]]:
        """Return what is to be averaged with the clique now, in parts, and fields of the event.

        The tensors stay as they are until the round is settled, whatever steps are taken.
        """

    def settle(self, part: int, mean: Tensor) -> None:
        """Put the clique's mean of one part to use."""

    def end_round(self, turn: Turn) -> dict[str, Any]:
        """Do what is left once every part is settled, or none in an idle round; return fields."""


class RoundLog:
    """What is written down of one round."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.watch = Stopwatch()
        self.exposed_s = 0.0
        self.fragments: list[tuple[Moment, Moment]] | None = None
        self.noted: dict[str, Any] = {}

    def fields(self) -> dict[str, Any]:
        """Return the fields of the round's event that every workload has."""
        clique = self.turn.clique
        spans = self.fragments
        return {
            "round": self.turn.number,
            "plan_round": self.turn.plan_round,
            "kind": None if clique is None else clique.kind,
            **self.watch.fields(),
            "exposed_s": self.exposed_s,
            "fragments": spans and [{"start": one.unix, "end": two.unix} for one, two in spans],
            **self.noted,
        }


def in_turn(work: Work, turns: Iterable[Turn]) -> Iterator[RoundLog]:
    """Go through the rounds, in each of them first computing and then exchanging."""
    for turn in turns:
        log = RoundLog(turn)
        _work_locally(work, log, lambda step: None)
        _exchange_now(work, turn, log)
        yield log


def overlapped(work: Work, turns: Iterable[Turn]) -> Iterator[RoundLog]:
    """Go through the rounds, exchanging what one has to say during the steps of the next.

    A round's log comes when its last fragment is in use: after the local steps of the round after.
    """
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="exchange")
    try:
        before: _UnderWay | None = None
        for turn in turns:
            log = RoundLog(turn)
            _work_locally(work, log, _settling(work, before))
            if before is not None:
                before.finish(work)
            finished, before = before, _UnderWay(log, *work.messages(turn), thread)
            if finished is not None:
                yield finished.log
        if before is not None:
            before.settle_up_to(work, before.count)
            before.finish(work)
            yield before.log
    finally:
        thread.shutdown(wait=False, cancel_futures=True)  # what a lost peer keeps is not waited for


class _UnderWay:
    """A round whose fragments are on their way."""

    def __init__(
        self,
        log: RoundLog,
        messages: Sequence[Tensor],
        fields: dict[str, Any],
        thread: ThreadPoolExecutor,
    ) -> None:
        self.log = log
        log.noted.update(fields)
        parts = [] if log.turn.collective is None else messages
        self.count = len(parts)
        self._due: deque[Future[_Arrived]] = deque(
            thread.submit(_exchange, log.turn, part, number) for number, part in enumerate(parts)
        )
        self._spans: list[tuple[Moment, Moment]] = []
        self._began = Moment.now()

    def settle_up_to(self, work: Work, count: int) -> None:
        """Put fragments to use, in order, until `count` of them are; wait where one is late."""
        for number in range(len(self._spans), count):
            waiting = time.monotonic()
            mean, span = self._due.popleft().result()
            self.log.exposed_s += time.monotonic() - waiting
            self._spans.append(span)
            work.settle(number, mean)

    def finish(self, work: Work) -> None:
        """Write down when fragments came and went."""
        self.log.fragments = self._spans
        first, last = self._began, self._began
        if self._spans:
            first, last = self._spans[0][0], self._spans[-1][1]
        self.log.watch.put("sync_start", first)
        self.log.watch.put("sync_end", last)
        self.log.noted.update(work.end_round(self.log.turn))


_Arrived = tuple[Tensor, tuple[Moment, Moment]]


def _exchange(turn: Turn, message: Tensor, number: int) -> _Arrived:
    assert turn.collective is not None
    began = Moment.now()
    mean = turn.collective.allreduce(message, f"fragment {number} of the message")
    return mean, (began, Moment.now())


def _exchange_now(work: Work, turn: Turn, log: RoundLog) -> None:
    """Average every part; outer steps are taken once the network is done."""
    messages, fields = work.messages(turn)
    log.watch.mark("sync_start")
    means = [] if turn.collective is None else _averaged(turn.collective, messages)
    log.watch.mark("sync_end")
    log.exposed_s = log.watch.seconds("sync_start", "sync_end")
    for part, mean in enumerate(means):
        work.settle(part, mean)
    log.noted.update(**fields, **work.end_round(turn))


def _averaged(collective: Collective, messages: Sequence[Tensor]) -> list[Tensor]:
    return [
        collective.allreduce(message, f"part {number} of the message")
        for number, message in enumerate(messages)
    ]


def _settling(work: Work, before: _UnderWay | None) -> Callable[[int], None]:
    """Return what is to be done after each local step: settle the fragments that are due."""

    def settle(step: int) -> None:
        if before is not None:
            before.settle_up_to(work, (step + 1) * before.count // work.local_steps)

    return settle


def _work_locally(work: Work, log: RoundLog, after_step: Callable[[int], None]) -> None:
    """Take the local steps of a round, and write down how long and with what loss."""
    log.watch.mark("local_start")
    cpu_before = time.thread_time()
    losses = []
    for step in range(work.local_steps):
        losses.append(work.step())
        after_step(step)
    log.noted["local_cpu_s"] = time.thread_time() - cpu_before
    log.watch.mark("local_end")
    known = [loss for loss in losses if loss is not None]
    log.noted["train_loss"] = sum(known) / len(known) if known else None
