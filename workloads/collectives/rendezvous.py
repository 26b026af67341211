"""The workers meet: nobody starts before all are there, and nobody waits for ever.

PyTorch's own rendezvous counts workers, so that its time-out can say how many are missing but not
who. Here every worker announces itself in the `TCPStore` under its rank and waits for the others'
announcements; when the limit is over the error names the ranks, and the sites, that are missing.
An announcement also carries a fingerprint of the job, because workers with different models would
send messages of different sizes and wait for bytes that never come.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

from torch.distributed import DistError

from workloads.collectives.board import Board
from workloads.collectives.bounded import bounded
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.roster import Roster
from workloads.errors import RendezvousError, UsageError

POLL_INTERVAL_S = 0.2
SLACK_S = 5.0
READING_S = 1.5
VERDICT = "rendezvous/verdict"

Result = TypeVar("Result")


@dataclass(frozen=True)
class Announcement:
    """What a worker tells the others of itself before they connect."""

    rank: int
    site: str | None
    interface: str
    address: str
    process_id: int
    fingerprint: str


@dataclass(frozen=True)
class Meeting:
    """The workers have met: their announcements by rank, and the board on which they stand."""

    board: Board
    announcements: tuple[Announcement, ...]


def meet(endpoint: Endpoint, roster: Roster, announcement: Announcement, limit_s: float) -> Meeting:
    """Announce this worker and wait until every worker has announced itself.

    Raises:
        RendezvousError: a worker is missing after `limit_s` seconds, the store cannot be reached,
            or a worker runs another job; the text names it.
        UsageError: the port of the rendezvous is taken.
    """
    deadline = time.monotonic() + limit_s
    board = _connect(endpoint, roster, limit_s)
    return meet_at(board, endpoint, roster, announcement, limit_s, deadline)


def meet_at(
    board: Board,
    endpoint: Endpoint,
    roster: Roster,
    announcement: Announcement,
    limit_s: float,
    deadline: float | None = None,
) -> Meeting:
    """Announce this worker on a board that is there already, and wait for the others.

    Args:
        board: the notice board.
        endpoint: this worker's rank.
        roster: the workers' names.
        announcement: what the others are told.
        limit_s: the time limit, for messages.
        deadline: when it is over on the monotonic clock, if it began earlier than now.

    Raises:
        RendezvousError: as `meet`.
    """
    if deadline is None:
        deadline = time.monotonic() + limit_s

    def gather() -> tuple[Announcement, ...]:
        board.write(_key(announcement.rank), json.dumps(asdict(announcement)))
        _await_everyone(board, endpoint, roster, deadline, limit_s)
        return _read_announcements(board, endpoint.world_size)

    left_s = max(deadline - time.monotonic(), 0.0) + SLACK_S
    announcements = _or_unreachable(lambda: bounded(gather, left_s), endpoint, roster)
    _require_one_job(announcements, roster, endpoint)
    return Meeting(board, announcements)


def keeper_name(endpoint: Endpoint, roster: Roster) -> str:
    """Return how a message calls whoever serves the store: torchrun's agent or rank 0."""
    where = f"{endpoint.address}:{endpoint.port}"
    if endpoint.agent_keeps_store:
        return f"the agent of torchrun, which keeps the rendezvous at {where},"
    return f"{roster.name(0)}, which keeps the rendezvous at {where},"


def _connect(endpoint: Endpoint, roster: Roster, limit_s: float) -> Board:
    try:
        return bounded(lambda: Board.connect(endpoint, limit_s), limit_s + SLACK_S)
    except (DistError, TimeoutError) as error:
        if "EADDRINUSE" in str(error):
            raise UsageError(
                f"MASTER_PORT={endpoint.port}: another program listens there; choose a free port"
            ) from error
        raise RendezvousError(
            f"{keeper_name(endpoint, roster)} could not be reached within {limit_s:g} s"
        ) from error


def _await_everyone(
    board: Board, endpoint: Endpoint, roster: Roster, deadline: float, limit_s: float
) -> None:
    keys = [_key(rank) for rank in range(endpoint.world_size)]
    while not board.has(keys):
        if board.has([VERDICT]):
            raise RendezvousError(board.read(VERDICT))
        if time.monotonic() >= deadline:
            raise RendezvousError(_publish_missing(board, endpoint, roster, limit_s))
        time.sleep(POLL_INTERVAL_S)


def _publish_missing(board: Board, endpoint: Endpoint, roster: Roster, limit_s: float) -> str:
    """Return who is missing, and leave it on the board for those who still wait."""
    ranks = range(endpoint.world_size)
    missing = [rank for rank in ranks if not board.has([_key(rank)])]
    verdict = (
        f"{roster.names(missing)} did not reach the rendezvous at "
        f"{endpoint.address}:{endpoint.port} within {limit_s:g} s; "
        f"{len(ranks) - len(missing)} of {len(ranks)} workers are there"
    )
    board.write(VERDICT, verdict)
    if endpoint.keeps_store:
        time.sleep(2 * POLL_INTERVAL_S)  # the others read the verdict before the store is gone
    return verdict


def _read_announcements(board: Board, world_size: int) -> tuple[Announcement, ...]:
    texts = [board.read(_key(rank)) for rank in range(world_size)]
    return tuple(Announcement(**json.loads(text)) for text in texts)


def _require_one_job(
    announcements: tuple[Announcement, ...], roster: Roster, endpoint: Endpoint
) -> None:
    first = announcements[0].fingerprint
    for other in announcements:
        if other.fingerprint != first:
            if endpoint.keeps_store:
                time.sleep(READING_S)  # the others read the announcements before the store is gone
            theirs, ours = _differing_words(other.fingerprint, first)
            raise RendezvousError(
                f"{roster.name(other.rank)} has {theirs} where {roster.name(0)} has {ours}; "
                "start all workers with the same options"
            )


def _differing_words(theirs: str, ours: str) -> tuple[str, str]:
    """Return the words of each line that the other one lacks."""
    return (
        " ".join(word for word in theirs.split() if word not in ours.split()),
        " ".join(word for word in ours.split() if word not in theirs.split()),
    )


def _or_unreachable(call: Callable[[], Result], endpoint: Endpoint, roster: Roster) -> Result:
    try:
        return call()
    except (DistError, TimeoutError) as error:
        raise RendezvousError(
            f"{keeper_name(endpoint, roster)} cannot be reached any more: {first_line(error)}"
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error; PyTorch appends its own stack to the text."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".")


def _key(rank: int) -> str:
    return f"rendezvous/rank/{rank}"
