"""What can be told of the VM's files without a VM."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
VM = ROOT / "vm"


def listed(path: Path) -> list[str]:
    """The names of a list with remarks."""
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def pairs(path: Path, between: str) -> dict[str, str]:
    return dict(line.split(between, 1) for line in listed(path))


def project_requirements() -> list[Requirement]:
    # pyproject.toml is read as text: Python 3.10 has no reader of its own for it.
    text = (ROOT / "pyproject.toml").read_text()
    blocks = re.findall(r"^(?:dependencies|dev) = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    return [
        Requirement(name) for block in blocks for name in re.findall(r'^ +"(.*?)"', block, re.M)
    ]


def test_the_box_is_named_and_pinned_in_one_place() -> None:
    text = (ROOT / "Vagrantfile").read_text()
    named = re.findall(r'^BOX = "(.+?)"', text, re.MULTILINE)
    versions = re.findall(r'^BOX_VERSION = "([\d.]+)"', text, re.MULTILINE)
    assert (len(named), len(versions)) == (1, 1)
    others = [
        path
        for path in (*VM.iterdir(), *(ROOT / "scripts").iterdir(), ROOT / "docs" / "vm.md")
        if path.is_file() and (named[0] in path.read_text() or versions[0] in path.read_text())
    ]
    assert (text.count(named[0]), text.count(versions[0]), others) == (1, 1, [])


def test_ports_are_forwarded_to_this_machine_alone() -> None:
    text = (ROOT / "Vagrantfile").read_text()
    forwarded = re.findall(r'"forwarded_port",(.*?)\n\s*end', text, re.DOTALL)
    assert len(forwarded) == text.count("forwarded_port") == 1
    assert all('host_ip: "127.0.0.1"' in words for words in forwarded)


def test_the_machine_is_provisioned_by_the_set_up_script() -> None:
    assert "bash #{CHECKOUT}/scripts/setup.sh" in (ROOT / "Vagrantfile").read_text()
    assert "RUN bash scripts/setup.sh" in (VM / "Containerfile").read_text()


@pytest.mark.parametrize("name", ["Vagrantfile", "vm/box.Vagrantfile"])
def test_a_vagrantfile_is_ruby(name: str) -> None:
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("no ruby to ask")
    done = subprocess.run(
        [ruby, "-c", str(ROOT / name)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted(VM.glob("*.sh")), ids=lambda p: p.name)
def test_a_script_is_shell(path: Path) -> None:
    shell = "bash" if "bash" in path.read_text().splitlines()[0] else "sh"
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_boxs_own_packages_are_sorted_and_none_but_one_is_wanted_twice() -> None:
    own = listed(VM / "packages.txt")
    assert own == sorted(set(own))
    # The way in is needed before the set-up is; islands need the same program.
    assert set(own) & set(listed(ROOT / "packages.debian.txt")) == {"openssh-server"}


def test_the_versions_of_debian_packages_are_all_there_and_sorted() -> None:
    text = (VM / "packages.lock").read_text()
    locked = pairs(VM / "packages.lock", "=")
    names = [f"{name}={version}" for name, version in locked.items()]
    assert names == sorted(names)
    assert re.search(r"^# date: \d{10}$", text, re.MULTILINE)
    wanted = {*listed(VM / "packages.txt"), *listed(ROOT / "packages.debian.txt")}
    assert wanted - set(locked) == set()


def test_the_versions_of_python_packages_are_those_that_the_project_allows() -> None:
    locked = pairs(VM / "python.lock", "==")
    lines = listed(VM / "python.lock")
    assert lines == sorted(set(lines))
    by_name = {re.sub(r"[-_.]+", "-", name).lower(): Version(text) for name, text in locked.items()}
    asked = {re.sub(r"[-_.]+", "-", r.name).lower(): r.specifier for r in project_requirements()}
    wrong = [
        f"{name} {by_name[name]} is not {specifier}"
        for name, specifier in asked.items()
        if name in by_name and by_name[name] not in specifier
    ]
    assert wrong == []
    # One that was added since is taken in its newest version, and named by the building of the box.
    assert len(set(asked) & set(by_name)) > 20


def test_user_data_sets_up_with_the_same_script() -> None:
    text = (VM / "user-data.yaml").read_text()
    assert text.startswith("#cloud-config\n")
    data = yaml.safe_load(text)
    assert ["bash", "/opt/atoll/scripts/setup.sh"] in data["runcmd"]
    assert all(isinstance(word, str) for command in data["runcmd"] for word in command)
    assert {"git", "make", "ca-certificates"} <= set(data["packages"])


def test_user_data_is_what_cloud_init_takes() -> None:
    tool = shutil.which("cloud-init")
    if tool is None:
        pytest.skip("no cloud-init to ask")
    words = [tool, "schema", "--config-file", str(VM / "user-data.yaml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
