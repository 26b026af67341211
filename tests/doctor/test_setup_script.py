"""The set-up script on machines that lack something, each in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / "scripts" / "setup.sh")
    (tmp_path / "packages.debian.txt").write_text("bash # is everywhere\n")
    return tmp_path


def pretend(checkout: Path, program: str, answer: str) -> None:
    """Put a program first on the path that answers as another machine would."""
    path = checkout / "bin" / program
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)


def set_up(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(checkout / "scripts" / "setup.sh"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"},
    )


def test_another_system_is_sent_to_the_vm_in_one_line(checkout: Path) -> None:
    pretend(checkout, "uname", "echo Darwin")
    done = set_up(checkout)
    assert done.returncode == 1
    assert done.stderr == (
        "setup: Atoll needs Linux, and this is Darwin: the VM has everything, see docs/vm.md\n"
    )


def test_missing_packages_without_root_are_named_with_both_ways_out(checkout: Path) -> None:
    pretend(checkout, "id", "echo 1000")
    (checkout / "packages.debian.txt").write_text("bash\natoll-missing # comment\n# all\n")
    done = set_up(checkout)
    assert done.returncode == 1
    assert "needs root: atoll-missing\n" in done.stderr
    assert "sudo bash scripts/setup.sh" in done.stderr
    assert "docs/vm.md" in done.stderr


def test_a_failed_installation_shows_the_package_managers_own_words(checkout: Path) -> None:
    pretend(checkout, "apt-get", 'echo "E: Could not resolve the archive"; exit 100')
    pretend(checkout, "id", "echo 0")
    (checkout / "packages.debian.txt").write_text("atoll-missing\n")
    done = set_up(checkout)
    assert done.returncode == 1
    assert "setup:   E: Could not resolve the archive" in done.stderr
    assert "is the network reachable" in done.stderr


def test_a_failed_python_installation_leaves_no_mark_of_success(checkout: Path) -> None:
    (checkout / "pyproject.toml").write_text('[project]\nname = "atoll"\n')  # no version
    done = set_up(checkout)
    assert done.returncode == 1
    assert "docs/install.md" in done.stderr
    assert (checkout / ".venv" / "bin" / "python").exists()
    assert not (checkout / ".venv" / ".atoll-installed").exists()


def test_an_unknown_argument_is_refused(checkout: Path) -> None:
    done = set_up(checkout, "--fast")
    assert done.returncode == 1
    assert "--quiet" in done.stderr


def test_a_machine_that_is_ready_has_nothing_to_do() -> None:
    assert set_up(ROOT).returncode == 0
    done = set_up(ROOT, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
