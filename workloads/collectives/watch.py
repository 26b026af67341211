"""Who was lost: the one question that a broken ring does not answer.

When a member of a ring vanishes its neighbours see a closed connection and give up; that closes
*their* connections, and the members behind them blame them in turn. So every worker keeps a thread
that waits, without any traffic, for an alarm in the rendezvous store. A worker whose collective
failed raises the alarm; every worker still alive answers at once, also from within a blocked
collective; whoever stays silent is lost. The first verdict is written down for all.
"""

from __future__ import annotations

import contextlib
import threading
import time

from torch.distributed import DistError

from workloads.collectives.board import Board
from workloads.collectives.bounded import bounded
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.rendezvous import Meeting, keeper_name
from workloads.collectives.roster import Roster
from workloads.errors import CollectiveError

ALARM = "watch/alarm"
VERDICT = "watch/verdict"
CLOSED = "closed"
RAISED = "raised"
GRACE_S = 2.0
POLL_INTERVAL_S = 0.05
ANSWER_LIMIT_S = 6.0
TOGETHER_S = 0.4
PARTING_LIMIT_S = 30.0
WHOLE_JOB_S = 365 * 86_400.0


class Watch:
    """One worker's part in finding out who was lost."""

    def __init__(self, meeting: Meeting, endpoint: Endpoint, roster: Roster) -> None:
        self._board = meeting.board
        self._endpoint = endpoint
        self._roster = roster
        self._verdict: str | None = None
        self._listener = threading.Thread(
            target=self._listen, args=[meeting.board.second_connection()], daemon=True
        )
        self._listener.start()

    def explain(self, symptom: str) -> str:
        """Return who was lost, in one line, after a collective failed with `symptom`.

        Takes a little over two seconds, and no more than about eight.
        """
        try:
            return bounded(lambda: self._diagnose(symptom), ANSWER_LIMIT_S)
        except (DistError, TimeoutError):
            self._listener.join(GRACE_S)
            keeper = keeper_name(self._endpoint, self._roster)
            return self._verdict or f"lost {keeper} and with it the peers: {symptom}"

    def confess(self, reason: str) -> None:
        """Tell the others that it is this worker that fails, and why."""
        verdict = f"{self._roster.name(self._endpoint.rank)} failed: {reason}"
        with contextlib.suppress(DistError, TimeoutError):
            bounded(lambda: self._announce(verdict), ANSWER_LIMIT_S)

    def await_all(self, occasion: str, limit_s: float) -> None:
        """Wait until every worker has come to an occasion, without any traffic of collectives.

        Raises:
            CollectiveError: a worker was lost meanwhile, or did not come within the limit.
        """
        try:
            bounded(lambda: self._await_all(occasion, limit_s), limit_s + ANSWER_LIMIT_S)
        except (DistError, TimeoutError) as error:
            symptom = f"not all workers came to {occasion} within {limit_s:g} s"
            raise CollectiveError(self.explain(symptom)) from error

    def begin_together(self, occasion: str, limit_s: float) -> None:
        """Wait until every worker has come to an occasion, then for a moment that all agree on.

        The moment is `TOGETHER_S` after rank 0 saw that all are there, by the clocks of the
        machines; whose clock is behind waits no longer than that.

        Raises:
            CollectiveError: as `await_all`.
        """
        self.await_all(occasion, limit_s)
        try:
            moment = bounded(lambda: self._agreed_moment(occasion), ANSWER_LIMIT_S)
        except (DistError, TimeoutError) as error:
            raise CollectiveError(self.explain(f"no moment agreed on for {occasion}")) from error
        time.sleep(min(max(moment - time.time(), 0.0), TOGETHER_S))

    def close(self) -> None:
        """Part in good order: no worker closes its connections before all are done with them.

        A connection closed while its last bytes are under way may be reset, which would fail a
        peer that had everything it needed.
        """
        with contextlib.suppress(DistError, TimeoutError):
            bounded(self._part, PARTING_LIMIT_S)
        self._listener.join(GRACE_S)

    def _await_all(self, occasion: str, limit_s: float) -> None:
        keys = [f"watch/{occasion}/{rank}" for rank in range(self._endpoint.world_size)]
        self._board.write(keys[self._endpoint.rank], "here")
        deadline = time.monotonic() + limit_s
        while not self._board.has(keys):
            if self._board.has([VERDICT]):
                raise CollectiveError(self._board.read(VERDICT))
            if time.monotonic() >= deadline:
                raise TimeoutError
            time.sleep(POLL_INTERVAL_S)

    def _agreed_moment(self, occasion: str) -> float:
        key = f"watch/{occasion}/moment"
        if self._endpoint.rank == 0:
            self._board.write(key, repr(time.time() + TOGETHER_S))
        self._board.await_keys([key], ANSWER_LIMIT_S)
        return float(self._board.read(key))

    def _listen(self, board: Board) -> None:
        with contextlib.suppress(DistError):
            board.await_keys([ALARM], WHOLE_JOB_S)
            if board.read(ALARM) == CLOSED:
                return
            board.write(_alive_key(self._endpoint.rank), "yes")
            board.await_keys([VERDICT], ANSWER_LIMIT_S)
            self._verdict = board.read(VERDICT)

    def _diagnose(self, symptom: str) -> str:
        self._board.write(ALARM, RAISED)
        silent = self._await_answers()
        if silent:
            lost = f"lost {self._roster.names(silent)}: no answer from there ({symptom})"
        else:
            lost = f"every worker answers, so a path between them is cut or too slow: {symptom}"
        return self._announce(lost)

    def _await_answers(self) -> list[int]:
        """Return the ranks that have not answered the alarm after the period of grace."""
        deadline = time.monotonic() + GRACE_S
        silent = list(range(self._endpoint.world_size))
        while silent and time.monotonic() < deadline and not self._board.has([VERDICT]):
            silent = [rank for rank in silent if not self._board.has([_alive_key(rank)])]
            time.sleep(POLL_INTERVAL_S)
        return silent

    def _announce(self, verdict: str) -> str:
        """Write the verdict unless there is one already; return the one that stands."""
        standing = self._board.write_once(VERDICT, verdict)
        self._board.write(ALARM, RAISED)
        if self._endpoint.keeps_store:
            time.sleep(10 * POLL_INTERVAL_S)  # the others read it before the store is gone
        return standing

    def _part(self) -> None:
        """Say that this worker is done; the last word is that of rank 0, when all have said so."""
        self._board.write(_done_key(self._endpoint.rank), "yes")
        if self._endpoint.rank == 0:
            everyone = [_done_key(rank) for rank in range(self._endpoint.world_size)]
            self._board.await_keys(everyone, PARTING_LIMIT_S)
            self._board.write(ALARM, CLOSED)
        else:
            self._board.await_keys([ALARM], PARTING_LIMIT_S)


def _alive_key(rank: int) -> str:
    return f"watch/alive/{rank}"


def _done_key(rank: int) -> str:
    return f"watch/done/{rank}"
