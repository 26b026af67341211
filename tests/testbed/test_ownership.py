import os
import subprocess
from pathlib import Path

import pytest

from testbed.ownership import Node, Owner, ProcessId, RuntimeDirectory, the_running
from topologies.errors import UserError


def owned(root: Path, run_id: str, process: ProcessId) -> RuntimeDirectory:
    runtime = RuntimeDirectory(run_id, root)
    runtime.create()
    runtime.write_owner(Owner(run_id, "nine_city", "runs/x", process, None))
    return runtime


def dead_process() -> ProcessId:
    with subprocess.Popen(["sleep", "60"]) as process:
        identity = ProcessId.of(process.pid)
        process.kill()
    assert identity is not None
    return identity


def own_process() -> ProcessId:
    identity = ProcessId.of(os.getpid())
    assert identity is not None
    return identity


def test_a_process_is_alive_only_under_its_own_start_time() -> None:
    own = own_process()
    assert own.alive
    assert not ProcessId(own.pid, own.start_ticks - 1).alive


def test_a_zombie_counts_as_dead() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert ProcessId.of(process.pid) is None
    process.wait()


def test_owner_and_nodes_read_back_as_written(tmp_path: Path) -> None:
    runtime = owned(tmp_path, "a", own_process())
    node = Node("NYC.island", "island", "NYC", 12, 4026532249, "10.255.0.2")
    runtime.write_nodes([node])
    assert runtime.nodes() == (node,)
    owner = runtime.owner()
    assert owner is not None
    assert owner.processes == (own_process(),)


def test_a_run_of_a_dead_supervisor_is_dead(tmp_path: Path) -> None:
    assert not owned(tmp_path, "a", dead_process()).alive


def test_a_run_that_is_just_being_born_counts_as_alive(tmp_path: Path) -> None:
    runtime = RuntimeDirectory("a", tmp_path)
    runtime.create()
    assert runtime.alive


def test_the_only_running_emulation_needs_no_name(tmp_path: Path) -> None:
    owned(tmp_path, "dead", dead_process())
    owned(tmp_path, "living", own_process())
    assert the_running(root=tmp_path).run_id == "living"


def test_several_running_emulations_need_a_name(tmp_path: Path) -> None:
    owned(tmp_path, "a", own_process())
    owned(tmp_path, "b", own_process())
    with pytest.raises(UserError, match="choose one with --run: a, b"):
        the_running(root=tmp_path)
    assert the_running("b", tmp_path).run_id == "b"


def test_no_running_emulation_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="atoll up TOPOLOGY"):
        the_running(root=tmp_path / "nothing")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"supervisor": 1}', "null"])
def test_a_folder_with_a_garbled_owner_is_nobodys(tmp_path: Path, text: str) -> None:
    runtime = RuntimeDirectory("a", tmp_path)
    runtime.create()
    (runtime.path / "owner.json").write_text(text)
    os.utime(runtime.path, (0, 0))
    assert runtime.owner() is None
    assert not runtime.alive
