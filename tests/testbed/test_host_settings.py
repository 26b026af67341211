from pathlib import Path

import pytest

from testbed.host_settings import HostSettings, at_least, containing

NAME = "net/core/rmem_default"


@pytest.fixture
def sysctl_root(tmp_path: Path) -> Path:
    root = tmp_path / "sys"
    (root / "net/core").mkdir(parents=True)
    (root / NAME).write_text("212992\n")
    return root


@pytest.fixture
def settings(tmp_path: Path, sysctl_root: Path) -> HostSettings:
    return HostSettings(tmp_path / "ledger.json", sysctl_root)


def value(root: Path) -> str:
    return (root / NAME).read_text().strip()


def test_the_last_run_to_leave_restores_what_was_there(
    settings: HostSettings, sysctl_root: Path
) -> None:
    settings.acquire("first", {NAME: at_least(4194304)})
    settings.acquire("second", {NAME: at_least(4194304)})
    settings.release("first")
    assert value(sysctl_root) == "4194304"
    settings.release("second")
    assert value(sysctl_root) == "212992"


def test_a_larger_value_is_never_lowered(settings: HostSettings, sysctl_root: Path) -> None:
    (sysctl_root / NAME).write_text("9000000")
    assert settings.acquire("run", {NAME: at_least(4194304)}) == {NAME: "9000000"}


def test_what_somebody_else_changed_meanwhile_stays(
    settings: HostSettings, sysctl_root: Path
) -> None:
    settings.acquire("run", {NAME: at_least(4194304)})
    (sysctl_root / NAME).write_text("5000000")
    settings.release("run")
    assert value(sysctl_root) == "5000000"


def test_two_raises_restore_the_first_original(settings: HostSettings, sysctl_root: Path) -> None:
    settings.acquire("first", {NAME: at_least(4000000)})
    settings.acquire("second", {NAME: at_least(8000000)})
    settings.release("second")
    settings.release("first")
    assert value(sysctl_root) == "212992"


def test_releasing_a_stranger_restores_nothing_that_others_hold(
    settings: HostSettings, sysctl_root: Path
) -> None:
    settings.acquire("run", {NAME: at_least(4194304)})
    settings.release("stranger")
    assert value(sysctl_root) == "4194304"


def test_a_word_is_added_to_a_list_once() -> None:
    assert containing("cubic")("reno bbr") == "reno bbr cubic"
    assert containing("bbr")("reno bbr") == "reno bbr"
