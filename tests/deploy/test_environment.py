from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.fabric import Fabric
from testbed.deploy.environment import command_line, worker_environments
from topologies.errors import UserError

if TYPE_CHECKING:
    from testbed.deploy.fleet import Fleet

FABRIC = Fabric(("AMS", "LON", "NYC"), {"AMS": ("LON",), "LON": ("AMS", "NYC"), "NYC": ("LON",)})


def test_ranks_follow_the_order_given_and_rank_0_hosts_the_rendezvous() -> None:
    told = worker_environments(FABRIC, ["NYC", "AMS", "LON"])
    assert {site: env["RANK"] for site, env in told.items()} == {"NYC": "0", "AMS": "1", "LON": "2"}
    assert {env["WORLD_SIZE"] for env in told.values()} == {"3"}
    assert told["LON"]["ATOLL_SITE"] == "LON"
    assert told["LON"]["ATOLL_SITES"] == "NYC,AMS,LON"


def test_workers_meet_over_the_management_network() -> None:
    told = worker_environments(FABRIC, ["NYC", "AMS", "LON"])
    assert {env["MASTER_ADDR"] for env in told.values()} == {"10.255.0.6"}  # 2 x index 2 + 1, + 1
    assert FABRIC.island_management_ip("NYC") == "10.255.0.6"


def test_gloo_is_pinned_to_the_wan_interface() -> None:
    told = worker_environments(FABRIC, ["AMS"])
    assert told["AMS"]["GLOO_SOCKET_IFNAME"] == "wan0"


def test_threads_port_path_and_extras_are_passed_on() -> None:
    told = worker_environments(
        FABRIC,
        ["LON"],
        master_port=31000,
        python_path=[Path("/a"), Path("/b")],
        threads=2,
        extra={"SEED": "7"},
    )["LON"]
    assert told["MASTER_PORT"] == "31000"
    assert told["PYTHONPATH"] == "/a:/b"
    assert told["OMP_NUM_THREADS"] == told["MKL_NUM_THREADS"] == "2"
    assert told["SEED"] == "7"


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ([], "at least one site"),
        (["NYC", "NYC"], "two ranks"),
        (["NYC", "ROM"], "no site 'ROM'"),
    ],
)
def test_an_impossible_order_is_the_users_mistake(order: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        worker_environments(FABRIC, order)


WORDS = st.lists(
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1), min_size=1
)
NAMES = st.dictionaries(
    st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), st.text(max_size=20), max_size=4
)


@given(WORDS, NAMES)
def test_a_shell_splits_the_command_line_into_the_words_given(
    argv: list[str], environment: dict[str, str]
) -> None:
    split = shlex.split(command_line(argv, environment))
    settings = [f"{name}={value}" for name, value in sorted(environment.items())]
    assert split == (["env", *settings, *argv] if settings else argv)


def test_a_folder_is_entered_first() -> None:
    assert command_line(["ls"], directory="/tmp/my data") == "cd '/tmp/my data' && ls"


WORKER = """
import torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
ranks = torch.full((250_000,), float(dist.get_rank()))
dist.all_reduce(ranks)
print(ranks.min().item(), ranks.max().item())
dist.destroy_process_group()
"""


@pytest.mark.root
def test_gloo_workers_send_data_over_the_wan_and_not_over_the_management_network(
    fleet: Fleet, tmp_path: Path
) -> None:
    nyc_here = {"MASTER_ADDR": "10.255.0.4"}  # these islands have no switches between them
    told = worker_environments(FABRIC, ["NYC", "AMS", "LON"], extra=nyc_here)
    commands = {
        site: command_line([sys.executable, "-c", WORKER], told[site]) for site in fleet.sites
    }
    before, aside = _sent_bytes(fleet, "wan0"), _sent_bytes(fleet, "mgmt0")
    fleet.watch(fleet.start(commands, tmp_path), timeout_s=120)
    assert {(tmp_path / f"{site}.out").read_text() for site in fleet.sites} == {"3.0 3.0\n"}
    after = _sent_bytes(fleet, "wan0")
    # a ring of three sends 2 x 2/3 of the 1,000,000 bytes; nothing here may send less
    assert all(after[site] - before[site] > 1_300_000 for site in fleet.sites)
    management = _sent_bytes(fleet, "mgmt0")
    assert all(management[site] - aside[site] < 100_000 for site in fleet.sites)


def _sent_bytes(fleet: Fleet, interface: str) -> dict[str, int]:
    counters = fleet.run(f"awk '/{interface}:/ {{ print $10 }}' /proc/net/dev")
    return {site: int(result.stdout) for site, result in counters.items()}
