from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from paramiko import Ed25519Key
from paramiko.hostkeys import HostKeys

from testbed.deploy.keys import (
    KeyFiles,
    create_keys,
    generate_key_pair,
    ssh_config_text,
    write_private,
)

ADDRESSES = {"LON": "10.255.0.4", "NYC": "10.255.0.6"}


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    return create_keys(tmp_path, ADDRESSES)


def test_private_and_public_half_of_a_pair_belong_together(tmp_path: Path) -> None:
    pair = generate_key_pair()
    write_private(tmp_path / "key", pair.private)
    told = subprocess.run(
        ["ssh-keygen", "-y", "-f", str(tmp_path / "key")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout.split() == pair.public.split()


def test_known_hosts_pins_each_address_to_its_own_host_key(files: KeyFiles) -> None:
    pinned = HostKeys(str(files.known_hosts))
    for site, address in ADDRESSES.items():
        key = Ed25519Key.from_private_key_file(str(files.host_key(site)))
        assert pinned.check(address, key)
    assert not pinned.check(
        ADDRESSES["LON"], Ed25519Key.from_private_key_file(str(files.host_key("NYC")))
    )


def test_two_runs_have_nothing_in_common(tmp_path: Path) -> None:
    one = create_keys(tmp_path / "one", ADDRESSES)
    two = create_keys(tmp_path / "two", ADDRESSES)
    assert one.public_key.read_text() != two.public_key.read_text()
    assert one.known_hosts.read_text() != two.known_hosts.read_text()


def test_every_key_file_is_closed_to_others(files: KeyFiles) -> None:
    assert files.directory.stat().st_mode & 0o777 == 0o700
    written = [path for path in files.directory.rglob("*") if path.is_file()]
    assert len(written) == 6
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}


def test_openssh_reads_the_configuration_as_meant(files: KeyFiles) -> None:
    told = subprocess.run(
        ["ssh", "-G", "-F", str(files.ssh_config), "NYC"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    settings = dict(line.partition(" ")[::2] for line in told.splitlines())
    assert settings["hostname"] == "10.255.0.6"
    assert settings["user"] == "root"
    assert settings["stricthostkeychecking"] == "true"
    assert settings["identitiesonly"] == "yes"
    assert settings["identityfile"] == str(files.private_key)
    assert settings["userknownhostsfile"] == str(files.known_hosts)
    assert settings["globalknownhostsfile"] == "/dev/null"
    assert settings["updatehostkeys"] == "false"


def test_a_run_folder_with_a_space_or_percent_sign_is_quoted() -> None:
    text = ssh_config_text(KeyFiles(Path("/run/my 100% run/ssh")), {"NYC": "10.255.0.6"})
    assert 'IdentityFile "/run/my 100%% run/ssh/id_ed25519"' in text
