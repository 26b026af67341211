"""Training by real processes over the order-free collectives, on the loopback interface."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testbed.accelerator.config import Address, TreeConfig
from testbed.accelerator.process import AcceleratorProcess
from testbed.accelerator.process import Place as AcceleratorPlace
from tests.workloads.awaiting import await_round
from tests.workloads.loopback_group import Loopback
from workloads.innetwork.job import GroupJob, MemberPlace, TreeJob, dump_groups
from workloads.training.records import read_events

TRAIN = ["-m", "workloads.training.train", "--preset", "tiny", "--interface", "lo"]
SITES = ("NYC", "LON", "TYO")
WORKERS = 3


@contextmanager
def job_file(kind: str, folder: Path) -> Iterator[list[str]]:
    """Return the options of a worker; for `innetwork` one accelerator runs meanwhile."""
    if kind == "exchange":
        yield ["--collective", kind]
        return
    lo = Loopback(folder, WORKERS)
    trees = [TreeJob(i, (i,), (0,), lo.group_address(i)) for i in range(WORKERS)]
    if kind == "innetwork":
        box, group = lo.accelerator(0), lo.group_address(0)
        trees = [TreeJob(0, (0, 1, 2), (0, 1, 2), box, box, group)]
    members = tuple(MemberPlace(i, SITES[i], lo.member(i)) for i in range(WORKERS))
    described = GroupJob(kind, lo.job, 77, 64, 8904, 2000.0, 0.5, members, tuple(trees))
    path = folder / "job.json"
    path.write_text(dump_groups([described]))
    options = ["--collective", kind, "--job-file", str(path)]
    if kind == "multicast":
        yield options
        return
    where = AcceleratorPlace(folder, "box", Address(box.address, box.port), interface="lo")
    accelerator = AcceleratorProcess.start(where)
    addresses = tuple(Address(m.place.address, m.place.port) for m in members)
    results = (Address(group.address, group.port),)
    accelerator.open(
        TreeConfig(lo.job, 0, 77, 64, 3, addresses, members=addresses, results=results)
    )
    try:
        yield options
    finally:
        accelerator.close()


def test_the_parameters_are_the_same_over_every_order_free_collective(
    nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> None:
    ends = []
    for kind in ("exchange", "multicast", "innetwork"):
        folder = tmp_path / kind
        folder.mkdir()
        with job_file(kind, folder) as options:
            job = [
                *TRAIN,
                *options,
                "--rounds",
                "2",
                "--local-steps",
                "2",
                "--out",
                f"{folder}/{{rank}}",
            ]
            workers = start_ranks(job, WORKERS, ",".join(SITES))
            assert [nursery.finish(worker).stderr for worker in workers] == [""] * WORKERS
        ends += [read_events(folder / str(rank) / "worker.jsonl")[-1] for rank in range(WORKERS)]
    assert len({end["parameters_sha256"] for end in ends}) == 1
    assert ends[-1]["counters"]["failed_over"] == 0
    assert ends[-1]["counters"]["results"] > 100


@pytest.mark.parametrize("kind", ["exchange", "multicast", "innetwork"])
def test_the_survivors_name_the_site_of_the_worker_that_was_killed(
    kind: str, nursery: Any, start_ranks: Callable[..., list[int]], tmp_path: Path
) -> None:
    with job_file(kind, tmp_path) as options:
        endless = ["--rounds", "100000", "--no-progress", "--out", f"{tmp_path}/{{rank}}"]
        workers = start_ranks([*TRAIN, *options, *endless], WORKERS, ",".join(SITES))
        await_round(tmp_path / "2" / "worker.jsonl")
        os.kill(workers[1], signal.SIGKILL)
        outcomes = [nursery.finish(worker) for worker in workers]
    assert [outcome.exit_code for outcome in outcomes] == [1, -signal.SIGKILL, 1]
    for survivor in (outcomes[0], outcomes[2]):
        assert survivor.stderr.startswith("error: lost LON (rank 1): no answer from there (")
        assert survivor.stderr.count("\n") == 1


def test_workers_with_other_collectives_are_told_apart(
    nursery: Any, bare_environment: dict[str, str], free_port: int
) -> None:
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}
    workers = [
        nursery.start([*TRAIN, "--collective", kind], {**job, "RANK": str(rank)})
        for rank, kind in enumerate(["ring", "exchange"])
    ]
    said = [nursery.finish(worker).stderr for worker in workers]
    assert all("rank 1 has collective=exchange" in words for words in said), said
