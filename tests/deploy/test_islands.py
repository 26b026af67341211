"""Islands for real: namespaces, SSH servers, and nothing left of them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testbed.deploy import island
from testbed.deploy.fleet import Fleet
from testbed.deploy.island import Islands, start_islands
from testbed.deploy.island_files import ISLAND_SSH_DIRECTORY
from testbed.deploy.keys import generate_key_pair, write_private
from testbed.deploy.process_table import NodeNetwork, processes
from topologies.errors import HostFailures

if TYPE_CHECKING:
    from tests.deploy.conftest import Bench

pytestmark = pytest.mark.root


def said(fleet: Fleet, command: str) -> dict[str, str]:
    return {site: result.stdout.strip() for site, result in fleet.run(command).items()}


def test_each_island_has_its_own_host_name(fleet: Fleet) -> None:
    assert said(fleet, "hostname") == {"AMS": "ams", "LON": "lon", "NYC": "nyc"}
    assert said(fleet, "cat /etc/hostname")["NYC"] == "nyc"


def test_an_islands_own_name_means_its_wan_address_everywhere(fleet: Fleet) -> None:
    own = 'python -c "import socket; print(socket.gethostbyname(socket.gethostname()))"'
    assert said(fleet, own) == {"AMS": "10.0.0.1", "LON": "10.0.0.2", "NYC": "10.0.0.3"}
    assert set(said(fleet, "getent ahostsv4 lon | head -1 | cut -d' ' -f1").values()) == {
        "10.0.0.2"
    }
    management = said(fleet, "getent ahostsv4 lon-mgmt | head -1 | cut -d' ' -f1")
    assert set(management.values()) == {"10.255.0.3"}


def test_the_interpreter_of_the_testbed_comes_first(fleet: Fleet) -> None:
    assert set(said(fleet, "python -c 'import sys; print(sys.prefix)'").values()) == {sys.prefix}


def test_tmp_is_the_islands_own_and_lies_in_the_runs_folder(fleet: Fleet, islands: Islands) -> None:
    fleet.run("echo $ATOLL_SITE > /tmp/atoll-test-mark")
    assert said(fleet, "cat /tmp/atoll-test-mark") == {"AMS": "AMS", "LON": "LON", "NYC": "NYC"}
    assert not Path("/tmp/atoll-test-mark").exists()
    inside = islands.servers["LON"].work_directory / "atoll-test-mark"
    assert inside.read_text() == "LON\n"


def test_shared_memory_is_the_islands_own(fleet: Fleet) -> None:
    fleet.run("echo $ATOLL_SITE > /dev/shm/atoll-test-mark")
    assert said(fleet, "cat /dev/shm/atoll-test-mark")["AMS"] == "AMS"
    assert not Path("/dev/shm/atoll-test-mark").exists()


def test_an_island_sees_its_own_processes_only(fleet: Fleet) -> None:
    first = said(fleet, "tr '\\0' ' ' < /proc/1/cmdline; ls -d /proc/[0-9]* | wc -l")
    for text in first.values():
        assert "sshd" in text
        assert int(text.split()[-1]) < 12


def test_an_island_sees_no_key_but_its_own(fleet: Fleet) -> None:
    assert set(said(fleet, "ls /run /run/ssh | tr '\\n' ' '").values()) == {
        "/run: ssh sshd  /run/ssh: authorized_keys host_key sshd.pid sshd_config"
    }


def test_home_is_the_work_folder_and_not_the_hosts(fleet: Fleet) -> None:
    assert set(said(fleet, "echo $HOME $PWD ~root").values()) == {"/tmp /tmp /tmp"}


def test_orphans_are_reaped(fleet: Fleet) -> None:
    fleet.run("( setsid sleep 0.1 & )")
    time.sleep(0.4)
    assert set(said(fleet, "ps -eo stat= | grep -c ^Z || true").values()) == {"0"}


def test_the_node_itself_and_the_host_are_as_they_were(fleet: Fleet, shared_bench: Bench) -> None:
    host_name = Path("/proc/sys/kernel/hostname").read_text()
    assert shared_bench.inside("NYC", "hostname") == host_name
    assert shared_bench.inside("NYC", "cat", "/etc/hosts") == Path("/etc/hosts").read_text()
    assert not any(str(shared_bench.run_directory) in line for line in _host_mounts())


def test_sshd_takes_every_setting_as_meant(fleet: Fleet) -> None:
    effective = said(fleet, f"$(command -v sshd) -T -f {ISLAND_SSH_DIRECTORY}/sshd_config")["NYC"]
    settings = effective.lower().splitlines()
    for wanted in (
        "listenaddress 10.255.0.4:22",
        "permitrootlogin without-password",
        "passwordauthentication no",
        "kbdinteractiveauthentication no",
        "authenticationmethods publickey",
        "usepam no",
        "disableforwarding yes",
    ):
        assert wanted in settings
    assert sum(line.startswith("listenaddress") for line in settings) == 1


def test_another_runs_key_is_not_let_in(fleet: Fleet, islands: Islands, tmp_path: Path) -> None:
    stranger = tmp_path / "id_ed25519"
    write_private(stranger, generate_key_pair().private)
    config = islands.keys.ssh_config.read_text()
    (tmp_path / "config").write_text(config.replace(str(islands.keys.private_key), str(stranger)))
    assert _ssh(islands.keys.ssh_config, "NYC", "true") == (0, "")
    code, said_there = _ssh(tmp_path / "config", "NYC", "true")
    assert code == 255
    assert "Permission denied (publickey)" in said_there


def test_a_password_is_not_even_asked_for(fleet: Fleet, islands: Islands) -> None:
    password = "PreferredAuthentications=password,keyboard-interactive"
    code, said_there = _ssh(islands.keys.ssh_config, "-o", password, "NYC", "true")
    assert code == 255
    assert "Permission denied (publickey)" in said_there


def test_processes_are_found_by_site(fleet: Fleet, shared_bench: Bench) -> None:
    nodes = [
        NodeNetwork(site, "island", Path(f"/proc/{node.pid}/ns/net").stat().st_ino)
        for site, node in shared_bench.nodes.items()
    ]
    rows = processes(nodes)
    servers = {row.site for row in rows if "sshd" in row.command}
    assert servers == {"AMS", "LON", "NYC"}
    assert all(row.resident_mib > 0 for row in rows)


def test_a_locked_root_of_the_host_can_still_log_in(bench: Bench, tmp_path: Path) -> None:
    seat = bench.add_node("NYC")
    locked = tmp_path / "shadow"
    locked.write_text("root:!:19000:0:99999:7:::\n")
    bench.inside("NYC", "mount", "--bind", str(locked), "/etc/shadow")
    with start_islands(bench.run_directory, [seat]) as made, made.fleet() as one:
        assert one.run("id -u")["NYC"].stdout == "0\n"


def test_a_checkout_below_tmp_stays_visible(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path("/tmp") in tmp_path.parents
    (tmp_path / "worker.py").write_text("print('here')\n")
    needed = (*island.needed_paths(), tmp_path)
    monkeypatch.setattr(island, "needed_paths", lambda: needed)
    with start_islands(bench.run_directory, [bench.add_node("NYC")]) as made, made.fleet() as one:
        assert one.run(f"python {tmp_path}/worker.py")["NYC"].stdout == "here\n"
        below_tmp = [path for path in needed if Path("/tmp") in path.parents]
        visible = {path.relative_to("/tmp").parts[0] for path in below_tmp}
        assert set(one.run("ls /tmp")["NYC"].stdout.split()) == visible
    assert (tmp_path / "worker.py").exists()


def test_an_address_that_is_not_there_is_told_and_leaves_no_island(bench: Bench) -> None:
    good, bad = bench.add_node("AMS"), bench.add_node("NYC")
    elsewhere = island.IslandSeat("NYC", bad.shell_pid, "10.255.9.9", bad.wan_ip)
    with pytest.raises(
        HostFailures, match=r"1 of 2.*NYC: ended with code 255: Cannot bind"
    ) as failed:
        start_islands(bench.run_directory, [good, elsewhere])
    assert list(failed.value.succeeded) == ["AMS"]
    assert bench.commands() == ["sleep infinity"] * 3


def test_closing_ends_every_process_and_leaves_no_mount(bench: Bench) -> None:
    seats = [bench.add_node(site) for site in ("AMS", "NYC")]
    made = start_islands(bench.run_directory, seats)
    with made.fleet() as two:
        two.run("setsid nohup sleep 300 >/dev/null 2>&1 & disown; trap '' TERM; sleep 0.1")
        assert sum("sleep 300" in command for command in bench.commands()) == 2
        made.close()
        made.close()
    assert bench.commands() == ["sleep infinity"] * 3
    with bench.outside():
        assert not any(str(bench.run_directory) in line for line in _host_mounts())
        assert "mgmt" not in subprocess.check_output(["ip", "-br", "link"], text=True)


def _host_mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def _ssh(config: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        ["ssh", "-F", str(config), *words], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr
