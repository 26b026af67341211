"""The rendezvous over a real store: who is missing is named, and nobody waits for ever."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from workloads.collectives.bounded import bounded
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.gloo import symptom_of
from workloads.collectives.rendezvous import Announcement, Meeting, meet
from workloads.collectives.roster import Roster
from workloads.errors import RendezvousError, UsageError

ROSTER = Roster(3, ("NYC", "LON", "TYO"))
PEER_FILE = "/build/third_party/gloo/gloo/transport/tcp/pair.cc"


def join(
    rank: int, port: int, limit_s: float, fingerprint: str = "same", roster: Roster = ROSTER
) -> Meeting:
    endpoint = Endpoint(rank, roster.size, "127.0.0.1", port)
    mine = Announcement(rank, roster.site(rank), "lo", "127.0.0.1", 0, fingerprint)
    return meet(endpoint, roster, mine, limit_s)


def failure_of(rank: int, port: int, limit_s: float, fingerprint: str = "same") -> str:
    with pytest.raises(RendezvousError) as failure:
        join(rank, port, limit_s, fingerprint)
    return str(failure.value)


def test_all_workers_learn_of_one_another(free_port: int) -> None:
    with ThreadPoolExecutor(3) as pool:
        meetings = list(pool.map(lambda rank: join(rank, free_port, 20), range(3)))
    for meeting in meetings:
        assert [a.site for a in meeting.announcements] == ["NYC", "LON", "TYO"]


def test_the_missing_worker_is_named_to_all_within_the_limit(free_port: int) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        failures = list(pool.map(lambda rank: failure_of(rank, free_port, 1.5), (0, 2)))
    expected = (
        f"LON (rank 1) did not reach the rendezvous at 127.0.0.1:{free_port} within 1.5 s; "
        "2 of 3 workers are there"
    )
    assert failures == [expected, expected]
    assert time.monotonic() - began < 10


def test_a_rendezvous_that_nobody_keeps_is_told_by_its_keeper(free_port: int) -> None:
    reason = failure_of(1, free_port, 1)
    assert reason.startswith(f"NYC (rank 0), which keeps the rendezvous at 127.0.0.1:{free_port}")


def test_a_worker_of_another_job_is_named_with_the_difference(free_port: int) -> None:
    jobs = ["seed=0 outer=mean", "seed=0 outer=mean", "seed=0 outer=diloco"]
    with ThreadPoolExecutor(3) as pool:
        failures = pool.map(lambda r: failure_of(r, free_port, 20, jobs[r]), range(3))
        assert set(failures) == {
            "TYO (rank 2) has outer=diloco where NYC (rank 0) has outer=mean; "
            "start all workers with the same options"
        }


def test_a_port_that_is_taken_is_the_users_to_change() -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"MASTER_PORT={port}: another program listens"):
            join(0, port, 3)


def test_a_call_without_an_answer_is_given_up() -> None:
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        bounded(lambda: time.sleep(1), 0.05)


def test_a_call_in_time_returns_or_raises_as_it_would() -> None:
    assert bounded(lambda: 7, 5) == 7
    with pytest.raises(FileNotFoundError):
        bounded(lambda: Path("/no/such/file").read_text(), 5)


def test_gloos_words_are_kept_short_and_its_addresses_named() -> None:
    peers = [Announcement(r, None, "wan0", f"10.0.0.{r + 1}", 0, "") for r in range(3)]
    said = RuntimeError(
        f"[{PEER_FILE}:553] Connection closed by peer [10.0.0.3]:38314. "
        "This is typically caused by a remote worker crashing. Check the logs."
    )
    assert (
        symptom_of(said, peers, ROSTER)
        == "gloo: Connection closed by peer [10.0.0.3]:38314, TYO (rank 2)"
    )


def test_an_address_of_several_workers_names_none_of_them() -> None:
    peers = [Announcement(r, None, "lo", "127.0.0.1", 0, "") for r in range(3)]
    said = RuntimeError("Connection closed by peer [127.0.0.1]:38314")
    assert symptom_of(said, peers, ROSTER) == "gloo: Connection closed by peer [127.0.0.1]:38314"
