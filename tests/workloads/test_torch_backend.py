"""PyTorch's cases on the back-end `atoll`, by three processes on the loopback interface."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("torch_cases.py")
NAMES = re.findall(r"^@case\ndef (\w+)", SCRIPT.read_text(), flags=re.MULTILINE)
SITES = "NYC,LON,TYO"


@pytest.fixture(scope="module")
def outcomes(nursery: Any) -> list[dict[str, str | None]]:
    """What went wrong in each case, for each rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    job = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ATOLL_SITES": SITES}
    command = ["-m", "workloads.launch", str(SCRIPT)]
    workers = [nursery.start(command, {**job, "RANK": str(rank)}) for rank in range(3)]
    ended = [nursery.finish(worker) for worker in workers]
    assert [one.exit_code for one in ended] == [0, 0, 0], ended
    return [json.loads(one.stdout) for one in ended]


@pytest.mark.parametrize("name", NAMES)
def test_pytorchs_case(outcomes: list[dict[str, str | None]], name: str) -> None:
    assert [outcome[name] for outcome in outcomes] == [None, None, None]
