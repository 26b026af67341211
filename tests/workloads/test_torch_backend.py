"""PyTorch's cases on the back-end `atoll`, by three processes on the loopback interface."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from tests.workloads.ddp_script import dataset, network

SCRIPT = Path(__file__).with_name("torch_cases.py")
TRAINING = Path(__file__).with_name("ddp_script.py")
NAMES = re.findall(r"^@case\ndef (\w+)", SCRIPT.read_text(), flags=re.MULTILINE)
SITES = "NYC,LON,TYO"


def said_by_all(nursery: Any, command: list[str]) -> list[Any]:
    """Let three processes run a script; return what each printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    job = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ATOLL_SITES": SITES}
    workers = [nursery.start(command, {**job, "RANK": str(rank)}) for rank in range(3)]
    ended = [nursery.finish(worker) for worker in workers]
    assert [one.exit_code for one in ended] == [0, 0, 0], ended
    return [json.loads(one.stdout) for one in ended]


@pytest.fixture(scope="module")
def outcomes(nursery: Any) -> list[dict[str, str | None]]:
    """What went wrong in each case, for each rank."""
    return said_by_all(nursery, ["-m", "workloads.launch", str(SCRIPT)])


@pytest.mark.parametrize("name", NAMES)
def test_pytorchs_case(outcomes: list[dict[str, str | None]], name: str) -> None:
    assert [outcome[name] for outcome in outcomes] == [None, None, None]


def trained_by_one() -> list[float]:
    """What one process makes of the batches of all three, whose mean gradient it takes."""
    data, model = dataset(), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    samplers = [DistributedSampler(data, 3, rank) for rank in range(3)]
    for epoch in range(6):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        loaders = [DataLoader(data, batch_size=20, sampler=sampler) for sampler in samplers]
        for batches in zip(*loaders, strict=True):
            optimizer.zero_grad()
            losses = [cross_entropy(model(inputs), labels) for inputs, labels in batches]
            torch.stack(losses).mean().backward()
            optimizer.step()
    return torch.cat([one.detach().reshape(-1) for one in model.parameters()]).tolist()


def test_an_unmodified_training_learns_what_one_process_would(nursery: Any) -> None:
    said = said_by_all(nursery, ["-m", "workloads.launch", str(TRAINING), "atoll"])
    assert said[0] == said[1] == said[2]
    assert said[0]["loss"] < 0.25  # it began at ln 2
    assert said[0]["weights"] == pytest.approx(trained_by_one(), abs=1e-4)
