"""Whole runs from the outside: what a user starts, ends, kills, and finds left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from testbed.host_settings import SYSCTL_ROOT, wanted_settings
from testbed.ownership import RUNTIME_ROOT, ProcessId, RuntimeDirectory
from testbed.supervisor import host_settings

pytestmark = [pytest.mark.root, pytest.mark.slow]

ATOLL = str(Path(sys.executable).with_name("atoll"))
START_LIMIT_S = 60.0


class Up:
    """One `atoll up three_city` in the background."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.records = folder / "runs"
        self.output = folder / "output.txt"
        with self.output.open("wb") as output:
            self.supervisor = subprocess.Popen(
                [
                    ATOLL,
                    "up",
                    "three_city",
                    "--no-calibrate",
                    "--runs",
                    str(self.records),
                    *options,
                ],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        self.run_id = ""

    def wait_for(self, condition: Callable[[], bool], limit_s: float = START_LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline, self.output.read_text()
            assert self.supervisor.poll() is None, self.output.read_text()
            time.sleep(0.01)
        self.run_id = self.find_run_id() or self.run_id

    def find_run_id(self) -> str:
        folders = list(self.records.glob("2*"))
        return folders[0].name if folders else ""

    @property
    def runtime(self) -> RuntimeDirectory:
        return RuntimeDirectory(self.find_run_id() or self.run_id)

    def is_up(self) -> bool:
        return "is up" in self.output.read_text()

    def has_nodes(self) -> bool:
        return bool(self.find_run_id()) and bool(self.runtime.nodes())

    def has_first_process(self) -> bool:
        folders = [x for x in RUNTIME_ROOT.glob("*three_city*") if (x / "owner.json").exists()]
        owners = [RuntimeDirectory(x.name).owner() for x in folders]
        mine = [x for x in owners if x and x.supervisor.pid == self.supervisor.pid]
        self.run_id = mine[0].run_id if mine else self.run_id
        return any(x.first_process for x in mine)

    def kill(self) -> None:
        self.supervisor.kill()
        self.supervisor.wait()

    def interrupt(self) -> int:
        self.supervisor.send_signal(signal.SIGINT)
        return self.supervisor.wait(30)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def begin(*options: str) -> Up:
        folder = tmp_path / f"run{len(started)}"
        folder.mkdir()
        started.append(Up(folder, *options))
        return started[-1]

    yield begin
    for one in started:
        if one.supervisor.poll() is None:
            one.kill()
    subprocess.run([ATOLL, "clean"], check=True, capture_output=True)


def atoll(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([ATOLL, *words], capture_output=True, text=True, check=False, timeout=60)


def descendants(pid: int) -> set[ProcessId]:
    """Every living process that `pid` has started, directly or not, in whichever namespace."""
    found: set[ProcessId] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            identity = ProcessId.of(child)
            found |= descendants(child) | ({identity} if identity else set())
    return found


def living(processes: set[ProcessId]) -> set[ProcessId]:
    return {process for process in processes if process.alive}


def processes_naming(run_id: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if run_id in command and str(os.getpid()) not in path.parts:
            found.append(command)
    return found


def host_interfaces() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def eventually(condition: Callable[[], bool], limit_s: float = 20.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class HostBefore:
    """The host's settings, to be held against what a run leaves, if no other run holds them."""

    def __init__(self) -> None:
        self.others = host_settings().holders()
        self.values = {name: read_sysctl(name) for name in wanted_settings("cubic")}

    def assert_restored(self, *runs: str) -> None:
        holders = host_settings().holders()
        assert not set(runs) & set(holders)
        if not self.others and not holders:
            assert {name: read_sysctl(name) for name in self.values} == self.values


def read_sysctl(name: str) -> str:
    return (SYSCTL_ROOT / name).read_text()


def test_ctrl_c_ends_a_run_and_leaves_only_its_record(start: Callable[..., Up]) -> None:
    interfaces, host = host_interfaces(), HostBefore()
    one = start()
    one.wait_for(one.is_up)
    assert len(one.runtime.nodes()) == 6
    started = descendants(one.supervisor.pid)
    assert len(started) > 20
    assert one.interrupt() == 130
    assert "Traceback" not in one.output.read_text()
    assert not one.runtime.path.exists()
    assert not living(started)
    assert not processes_naming(one.run_id)
    assert host_interfaces() == interfaces
    host.assert_restored(one.run_id)
    events = (one.records / one.run_id / "events.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["event"] == "run_ended"


def test_commands_reach_an_island_of_a_running_emulation(start: Callable[..., Up]) -> None:
    one = start()
    one.wait_for(one.is_up)
    ping = atoll("exec", "AMS", "--run", one.run_id, "--", "ping", "-c", "1", "-W", "5", "lon")
    assert ping.returncode == 0, ping.stderr
    assert atoll("exec", "AMS", "--run", one.run_id, "--", "sh", "-c", "exit 7").returncode == 7
    health = atoll("controller", "get", "--run", one.run_id, "/health")
    assert json.loads(health.stdout)["ready"] is True
    rows = json.loads(atoll("ps", "--json").stdout)["rows"]
    own = [row for row in rows if row["run"] == one.run_id]
    at_ams = [row["command"] for row in own if (row["site"], row["kind"]) == ("AMS", "switch")]
    assert any("ovs-vswitchd" in command for command in at_ams)
    wrong = atoll("exec", "XYZ", "--run", one.run_id, "--", "true")
    assert wrong.returncode == 2
    assert "AMS" in wrong.stderr and len(wrong.stderr.splitlines()) == 1


def test_an_ordinary_program_multicasts_to_groups_asked_for_and_to_groups_joined_by_igmp(
    start: Callable[..., Up],
) -> None:
    one = start()
    one.wait_for(one.is_up)
    inside = ("--run", one.run_id, "--")
    made = atoll("group", "add", "LON", "--run", one.run_id)
    asked_for = str(json.loads(made.stdout)["group_ip"])
    for group in (asked_for, "239.9.9.9"):
        listen = (
            "timeout",
            "80",
            "socat",
            "-u",
            f"UDP4-RECVFROM:5001,ip-add-membership={group}:wan0",
            "-",
        )
        command = [ATOLL, "exec", "LON", *inside, *listen]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
            assert eventually(partial(delivered_at_london, one, group), START_LIMIT_S)
            send = f"echo hello | socat -u - UDP4-SENDTO:{group}:5001"
            assert atoll("exec", "AMS", *inside, "sh", "-c", send).returncode == 0
            assert listener.communicate(timeout=85)[0] == "hello\n"
    assert atoll("group", "delete", asked_for, "--run", one.run_id).returncode == 0
    assert atoll("group", "delete", asked_for, "--run", one.run_id).returncode == 2


def delivered_at_london(one: Up, group: str) -> bool:
    """Whether a program at LON listens to a group that the controller delivers there."""
    own = atoll("exec", "LON", "--run", one.run_id, "--", "ip", "-4", "maddress", "show").stdout
    rows = json.loads(atoll("group", "list", "--run", one.run_id).stdout)["groups"]
    delivered = [row["group_ip"] for row in rows if "LON" in (*row["members"], *row["joined"])]
    return group in own and group in delivered


@pytest.mark.parametrize("moment", ["has_first_process", "has_nodes", "is_up"])
def test_a_killed_run_leaves_nothing_and_the_run_beside_it_lives_on(
    start: Callable[..., Up], moment: str
) -> None:
    host = HostBefore()
    other, victim = start(), start()
    other.wait_for(other.is_up)
    victim.wait_for(getattr(victim, moment))
    started = descendants(victim.supervisor.pid)
    victim.kill()
    assert eventually(lambda: not living(started))
    assert eventually(lambda: not processes_naming(victim.run_id))
    cleaned = atoll("clean")
    assert f"{victim.run_id}: removed" in cleaned.stdout
    assert f"{other.run_id}: is running, left alone" in cleaned.stdout
    assert not victim.runtime.path.exists()
    alive = atoll("exec", "FRA", "--run", other.run_id, "--", "ping", "-c", "1", "-W", "5", "ams")
    assert alive.returncode == 0, alive.stderr
    assert other.interrupt() == 130
    host.assert_restored(other.run_id, victim.run_id)


def test_a_named_living_run_is_ended_by_clean(start: Callable[..., Up]) -> None:
    one = start()
    one.wait_for(one.is_up)
    done = atoll("clean", one.run_id)
    assert done.stdout.strip() == f"{one.run_id}: ended and removed"
    assert one.supervisor.wait(10) == 130


@pytest.mark.parametrize("part", ["linkd", "controller"])
def test_a_part_that_dies_ends_the_run_with_its_name(start: Callable[..., Up], part: str) -> None:
    one = start("--links", "linkd") if part == "linkd" else start()
    one.wait_for(one.is_up)
    owner = one.runtime.owner()
    assert owner is not None and owner.first_process is not None
    os.kill(child_named(owner.first_process.pid, part), signal.SIGKILL)
    assert one.supervisor.wait(20) == 1
    last = one.output.read_text().splitlines()[-1]
    assert last.startswith("atoll: ") and "ended" in last
    assert not one.runtime.path.exists()


def child_named(first: int, part: str) -> int:
    """A process in the run's PID namespace whose command names the part."""
    pidns = Path(f"/proc/{first}/ns/pid").stat().st_ino
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().split(b"\0")
            inside = (path / "ns/pid").stat().st_ino == pidns
        except OSError:
            continue
        named = any(word.decode().rpartition("/")[2] == part for word in command[:4])
        if inside and named and b"chrt" not in command[0]:
            return int(path.name)
    raise AssertionError(f"no {part} in the run")


def test_a_controller_of_ones_own_runs_the_network(
    start: Callable[..., Up], tmp_path: Path
) -> None:
    application = tmp_path / "quiet.py"
    application.write_text(
        "from ryu.base import app_manager\n"
        "from ryu.ofproto import ofproto_v1_3\n"
        "class Quiet(app_manager.RyuApp):\n"
        "    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]\n"
    )
    one = start("--controller", str(application))
    one.wait_for(one.is_up)
    nothing = atoll("exec", "AMS", "--run", one.run_id, "--", "ping", "-c", "1", "-W", "1", "lon")
    assert nothing.returncode == 1  # an application that installs nothing forwards nothing


def test_a_request_to_end_is_heard_however_early_it_comes(start: Callable[..., Up]) -> None:
    one = start()
    one.wait_for(one.has_first_process)
    assert one.interrupt() == 130
    assert "Traceback" not in one.output.read_text()
    assert not one.runtime.path.exists()
