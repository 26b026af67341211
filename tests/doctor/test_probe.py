from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from testbed.doctor import probe
from testbed.doctor.facts import Facts, Privileges, Trial
from testbed.doctor.report import diagnose


def test_capabilities_are_read_from_the_effective_set() -> None:
    status = "Name:\tpython\nCapPrm:\tffffffffffffffff\nCapEff:\t0000000000001000\n"
    assert probe.read_privileges(status, 0) == Privileges(True, True, False)
    status = "CapEff:\t0000000000200000\n"
    assert probe.read_privileges(status, 1000) == Privileges(False, False, True)
    assert probe.read_privileges("", 1000) == Privileges(False, False, False)


def test_steal_is_the_stolen_share_of_the_time_between_two_readings() -> None:
    assert probe.steal_pct((10, 1000), (15, 1200)) == pytest.approx(2.5)
    assert probe.steal_pct((10, 1000), (10, 1000)) == 0.0


def test_trials_are_read_line_by_line_and_noise_is_passed_over() -> None:
    output = "noise\nveth\t0\t\nnetem\t2\tError: Specified qdisc kind is unknown.\nodd\t0\t\n"
    assert probe.read_trials(output) == {
        "veth": Trial(True),
        "netem": Trial(False, "Error: Specified qdisc kind is unknown."),
    }


def test_the_trial_script_tells_success_from_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = {"good": "true", "bad": "echo first; echo it\\'s last >&2; exit 3"}
    monkeypatch.setattr(probe, "TRIALS", commands)
    done = subprocess.run(
        ["sh", "-c", probe.trial_script()], capture_output=True, text=True, check=True
    )
    assert probe.read_trials(done.stdout) == {"good": Trial(True), "bad": Trial(False, "it's last")}


@pytest.mark.parametrize(
    ("made", "version"),
    [
        (["cgroup.controllers"], "v2"),
        (["cpu/"], "v1"),
        (["cpu/", "unified/", "unified/cgroup.controllers"], "v1 and v2"),
        ([], "none"),
    ],
)
def test_control_groups_are_told_by_what_is_mounted(
    tmp_path: Path, made: list[str], version: str
) -> None:
    for name in made:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).touch()
    assert probe.cgroup_version(str(tmp_path)) == version


def test_a_program_that_is_not_there_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "VERSION_COMMANDS", {"atoll-no-such-program": ("--version",)})
    assert probe.tool_versions() == {"atoll-no-such-program": None}


def test_a_program_that_hangs_is_there_but_tells_no_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "VERSION_COMMANDS", {"sleep": ("30",)})
    monkeypatch.setattr(probe, "PROBE_TIMEOUT_S", 0.2)
    assert Path(probe.tool_version("sleep") or "").name == "sleep"


def test_a_package_that_is_not_there_has_no_version() -> None:
    assert probe.package_version("atoll-no-such-package") is None
    assert probe.package_version("pytest") == pytest.__version__


def test_another_system_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    facts = probe.probe()
    assert facts.system == "Darwin"
    assert facts.tools == {}


@pytest.fixture(scope="module")
def here() -> Facts:
    return diagnose().facts


@pytest.mark.root
def test_set_up_left_no_program_or_package_missing(here: Facts) -> None:
    assert [name for name, version in {**here.tools, **here.packages}.items() if not version] == []


@pytest.mark.root
def test_root_makes_namespaces_and_uses_the_features_that_every_run_needs(here: Facts) -> None:
    assert here.namespaces == Trial(True)
    assert set(here.kernel_features) == set(probe.TRIALS)
    for name in ("veth", "bridge", "tun"):
        assert here.kernel_features[name] == Trial(True)


@pytest.mark.root
@pytest.mark.parametrize(
    ("feature", "option"),
    [
        ("netem", "CONFIG_NET_SCH_NETEM"),
        ("htb", "CONFIG_NET_SCH_HTB"),
        ("tbf", "CONFIG_NET_SCH_TBF"),
        ("openvswitch", "CONFIG_OPENVSWITCH"),
    ],
)
def test_trials_agree_with_the_kernels_own_configuration(
    here: Facts, feature: str, option: str
) -> None:
    config = Path("/proc/config.gz")
    if not config.exists():
        pytest.skip("this kernel does not tell its configuration")
    lines = gzip.decompress(config.read_bytes()).decode().splitlines()
    if f"{option}=m" in lines:
        pytest.skip(f"{option} is a module, which may or may not be installed")
    assert here.feature_works(feature) == (f"{option}=y" in lines)


@pytest.mark.root
def test_nothing_of_a_diagnosis_stays_behind() -> None:
    def of_the_trials() -> tuple[list[str], str]:
        names = [path.name for path in Path("/sys/class/net").iterdir()]
        qdiscs = subprocess.run(
            ["tc", "qdisc", "show", "dev", "lo"], capture_output=True, text=True, check=True
        )
        return sorted(name for name in names if name.startswith("atoll")), qdiscs.stdout

    before = of_the_trials()
    diagnose()
    assert of_the_trials() == before
