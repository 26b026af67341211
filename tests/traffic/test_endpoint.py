"""Real sockets on loopback; the rates are compared with one another, never with the clock alone."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from workloads.traffic.flows import FlowEnd, dump_ends

LOOPBACK = "127.0.0.1"
ON_S = 1.0


def both_ends(**fields: Any) -> list[FlowEnd]:
    kind = socket.SOCK_DGRAM if fields["protocol"] == "udp" else socket.SOCK_STREAM
    common = {"address": LOOPBACK, "port": free_port(kind), "stop_s": ON_S, **fields}
    return [FlowEnd(role=role, **common) for role in ("send", "receive")]


def start(ends: list[FlowEnd], begin: Path, limit_s: float = 20.0) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "workloads.traffic.endpoint", "--flows", dump_ends(ends)]
    command += ["--begin-file", str(begin), "--limit-s", str(limit_s)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd()
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    ends = both_ends(flow="tcp", number=1, protocol="tcp", rate_mbps=8.0)
    ends += both_ends(flow="udp", number=2, protocol="udp", rate_mbps=8.0, datagram_bytes=1000)
    ends += both_ends(flow="half", number=3, protocol="tcp", rate_mbps=8.0, on_s=0.25, off_s=0.25)
    for i, (name, feeder) in enumerate((("r0", "r1"), ("r1", "r0"))):
        ring = {"fed_by": feeder, "step_bytes": 20_000, "steps": 2, "compute_s": 0.05}
        ends += both_ends(flow=name, number=4 + i, protocol="tcp", **ring)
    begin = tmp_path_factory.mktemp("traffic") / "begin"
    process = start(ends, begin)
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    begin.with_suffix(".new").write_text(repr(time.time()))
    begin.with_suffix(".new").rename(begin)
    time.sleep(ON_S + 0.7)
    process.terminate()
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    return [json.loads(line) for line in [*lines, *output.splitlines()]]


def last(said: list[dict[str, Any]], flow: str, side: str) -> dict[str, Any]:
    rows = [row for line in said for row in line.get("flows", ())]
    found: dict[str, Any] = [r for r in rows if (r["flow"], r["side"]) == (flow, side)][-1]
    return found


def test_it_says_when_it_listens_and_when_it_ends(said: list[dict[str, Any]]) -> None:
    assert said[0]["event"] == "ready"
    assert said[-1]["event"] == "end"


@pytest.mark.parametrize("flow", ["tcp", "udp", "half"])
def test_what_was_sent_arrives_on_a_network_that_loses_nothing(
    said: list[dict[str, Any]], flow: str
) -> None:
    sent, received = last(said, flow, "sent"), last(said, flow, "received")
    assert received["bytes"] == sent["bytes"] - sent.get("retransmitted_bytes", 0)
    assert received["bytes"] > 0


def test_no_flow_is_above_its_rate(said: list[dict[str, Any]]) -> None:
    offered = 8e6 / 8 * ON_S
    assert last(said, "tcp", "received")["bytes"] <= 1.1 * offered
    assert last(said, "udp", "received")["bytes"] <= 1.1 * offered
    assert last(said, "half", "received")["bytes"] <= 0.6 * offered


def test_datagrams_are_counted_with_their_delay(said: list[dict[str, Any]]) -> None:
    row = last(said, "udp", "received")
    assert row["bytes"] == 1000 * row["packets"]
    assert 0 < row["delay_s"] / row["packets"] < 1.0


def test_members_of_a_ring_go_step_by_step_together(said: list[dict[str, Any]]) -> None:
    first, second = (last(said, name, "sent")["rounds"] for name in ("r0", "r1"))
    assert first >= 1
    assert abs(first - second) <= 1
    for name in ("r0", "r1"):
        assert last(said, name, "received")["bytes"] >= first * 2 * 20_000


def test_a_port_that_is_taken_ends_it_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        ends = both_ends(flow="a", number=1, protocol="tcp")[1:]
        ends[0] = FlowEnd(**{**vars(ends[0]), "port": other.getsockname()[1]})
        process = start(ends, tmp_path / "begin")
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert errors.startswith("error: flow a: port ")
    assert errors.count("\n") == 1


def test_it_ends_by_itself_when_its_time_is_over(tmp_path: Path) -> None:
    process = start(both_ends(flow="a", number=1, protocol="tcp"), tmp_path / "begin", 0.2)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert json.loads(output.splitlines()[-1])["event"] == "end"
