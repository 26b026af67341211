"""The daemon as a process: refusals, faults, and a whole life under sanitizers."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.links.backend import Wire
from testbed.links.linkd.build import RECIPE
from testbed.links.linkd_backend import LOG_NAME, SOCKET_NAME, LinkdBackend
from testbed.links.spec import LinkSpec
from testbed.native.client import Client
from tests.links.rig import FORWARD, rig, tcp_transfer
from topologies.errors import MachineError, RunError, UserError
from topologies.model import Direction
from workloads.building import SANITIZED

pytestmark = pytest.mark.root


def linkd_of(backend: object) -> LinkdBackend:
    assert isinstance(backend, LinkdBackend)
    return backend


def test_a_killed_daemon_is_told_and_ends_the_counters(tmp_path: Path) -> None:
    with rig("linkd", tmp_path) as made:
        backend = linkd_of(made.backend)
        assert backend.failure() is None
        os.kill(backend.process_id, signal.SIGKILL)
        limit = time.monotonic() + 10
        while backend.failure() is None and time.monotonic() < limit:
            time.sleep(0.02)
        assert backend.failure() == "linkd was ended by SIGKILL"
        with pytest.raises(RunError):
            backend.counters()


STARTER = """
import sys, time
from pathlib import Path
from testbed.links.linkd_backend import LinkdBackend
print(LinkdBackend.start(Path(sys.argv[1]), realtime=False).process_id, flush=True)
time.sleep(60)
"""


def test_a_daemon_ends_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout
        daemon = Path(f"/proc/{int(starter.stdout.readline())}")
        assert daemon.exists()
        starter.kill()
    limit = time.monotonic() + 20
    while daemon.exists() and time.monotonic() < limit:
        time.sleep(0.02)
    assert not daemon.exists()


def test_closing_twice_leaves_no_process_and_no_socket(tmp_path: Path) -> None:
    with rig("linkd", tmp_path) as made:
        backend = linkd_of(made.backend)
        backend.close()
        backend.close()
        assert backend._daemon.close() == 0
        assert backend.failure() is None
        assert not (tmp_path / SOCKET_NAME).exists()


def test_a_socket_path_may_be_long(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 120) / ("b" * 120)
    folder.mkdir(parents=True)
    with rig("linkd", folder) as made:
        assert made.backend.failure() is None


def test_an_interface_that_is_not_there_is_named(tmp_path: Path) -> None:
    with rig("linkd", tmp_path) as made, made.trial.middle.entered():
        wire = Wire(9, "w9a", "w9b", Direction("A9", "B9"))
        with pytest.raises(MachineError, match="wire end w9a cannot be set up"):
            made.backend.join(wire, LinkSpec(), LinkSpec())


def test_what_needs_more_memory_than_there_is_is_refused(tmp_path: Path) -> None:
    # 10 Gbit/s x (10 + 60) s = 87.5 GB, a third more for blocks that are not full.
    with (
        rig("linkd", tmp_path) as made,
        pytest.raises(UserError, match=r"link A0>B0: rate x \(delay \+ queue\) needs 1\d{5} MB"),
    ):
        made.change(rate_mbps=10_000, one_way_delay_ms=10_000, queue_ms=60_000)


def test_a_refused_change_leaves_the_spec_in_force(tmp_path: Path) -> None:
    with rig("linkd", tmp_path, LinkSpec(one_way_delay_ms=5)) as made:
        with pytest.raises(UserError, match="link A0>B0: jitter_ms 9 is larger than one_way_delay"):
            made.change(jitter_ms=9)
        assert made.backend.spec(FORWARD).jitter_ms == 0


def test_a_second_client_may_look_while_the_first_is_connected(tmp_path: Path) -> None:
    with rig("linkd", tmp_path):
        client = Client.connect(tmp_path / SOCKET_NAME, "linkd")
        assert len(client.ask("counters")) == 2
        assert client.ask("status")[0].startswith("mapped_bytes=")
        client.close()


def test_a_client_that_sends_rubbish_disturbs_nobody(tmp_path: Path) -> None:
    with rig("linkd", tmp_path) as made:
        client = Client.connect(tmp_path / SOCKET_NAME, "linkd")
        with pytest.raises(RunError):
            client.ask("x" * 5000)
        assert made.counters().frames_in >= 1
        assert len(made.carry(10)) == 10


def test_the_kernel_says_nothing_of_its_own_on_a_wire(tmp_path: Path) -> None:
    with rig("linkd", tmp_path) as made:
        time.sleep(1.5)  # router solicitations and listener reports come within a second
        before = made.counters(), made.counters(FORWARD.reverse)
        assert before[0].frames_in - before[0].frames_out == 0
        host_speaks = made.carry(5)
        assert len(host_speaks) == 5


def test_the_same_seed_loses_the_same_frames(tmp_path: Path) -> None:
    def lost(folder: str, seed: int) -> list[int]:
        (tmp_path / folder).mkdir()
        with rig("linkd", tmp_path / folder, LinkSpec(loss_pct=20, seed=seed)) as made:
            return [arrival.number for arrival in made.carry(500)]

    first = lost("a", 1)
    assert lost("b", 1) == first
    assert lost("c", 2) != first


def test_with_a_grain_frames_leave_together_and_by_half_of_it_early(tmp_path: Path) -> None:
    spec = LinkSpec(one_way_delay_ms=20)
    with rig("linkd", tmp_path, spec, grain_us=4000) as made:
        arrivals = made.carry(400, interval_s=0.0002)
    assert len(arrivals) == 400
    delays_ms = [arrival.one_way_ms for arrival in arrivals]
    assert 17.9 < min(delays_ms) < 19.9
    gaps_ns = [b.received_ns - a.received_ns for a, b in itertools.pairwise(arrivals)]
    assert sum(gap < 50_000 for gap in gaps_ns) > 200  # they were sent 200 microseconds apart


def test_a_grain_that_no_delay_would_survive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError):
        LinkdBackend.start(tmp_path, realtime=False, grain_us=20_000)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("linkd") / "linkd"
    return RECIPE.varied(program, RECIPE.units, SANITIZED).build()


def test_a_whole_life_is_clean_under_sanitizers(tmp_path: Path, sanitized: Path) -> None:
    with rig("linkd", tmp_path, program=sanitized) as made:
        backend = linkd_of(made.backend)
        # Offloaded frames cut up, flipped, lost and sent twice; TCP mends it all.
        made.change(loss_pct=0.5, duplicate_pct=5, corrupt_pct=0.5, one_way_delay_ms=2)
        assert tcp_transfer(made, 500_000) == (bytes(range(256)) * 1954)[:500_000]
        # Offloaded frames whole, and small enough a queue to drop some.
        made.change(loss_pct=0, duplicate_pct=0, corrupt_pct=0, rate_mbps=200, queue_ms=2)
        assert tcp_transfer(made, 2_000_000) == (bytes(range(256)) * 7813)[:2_000_000]
        made.change(reorder=True, jitter_ms=2)
        assert len(made.carry(500, 1000)) > 0
        made.change(rate_mbps=1, queue_ms=1000)
        made.stream.send(50, 1000)  # left inside when it ends
        client = Client.connect(tmp_path / SOCKET_NAME, "linkd")
        assert client.ask("part 0") == []
        client.close()
        backend.close()
        assert backend._daemon.close() == 0, (tmp_path / LOG_NAME).read_text()
    log = (tmp_path / LOG_NAME).read_text()
    assert "ERROR" not in log
    assert "runtime error" not in log
