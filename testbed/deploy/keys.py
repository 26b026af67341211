"""The keys of one run: who may log in, and which island is which.

A run makes one client key and one host key per island, and writes the fingerprints of all islands
to a `known_hosts` file before any server starts. So no connection is ever trusted on first use, no
key outlives its run, and no file of a person's own `~/.ssh` is read or written. All keys are
Ed25519 (RFC 8032, RFC 8709), made by `cryptography`, which Paramiko brings along.

    ssh/id_ed25519, id_ed25519.pub     the run's client key
    ssh/host_keys/NYC                  the host key of an island
    ssh/known_hosts                    address -> host key, pinned
    ssh/ssh_config                     `ssh -F ssh_config NYC`
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

LOGIN = "root"
CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True)
class KeyFiles:
    """Where the keys of a run are, below `/run/atoll/<run>/ssh`."""

    directory: Path

    @property
    def private_key(self) -> Path:
        """The run's client key."""
        return self.directory / "id_ed25519"

    @property
    def public_key(self) -> Path:
        """The public half of the client key, as islands authorize it."""
        return self.directory / "id_ed25519.pub"

    @property
    def known_hosts(self) -> Path:
        """The pinned host keys of all islands."""
        return self.directory / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        """The client configuration: `ssh -F` this file and a site code."""
        return self.directory / "ssh_config"

    def host_key(self, site: str) -> Path:
        """The private host key of an island."""
        return self.directory / "host_keys" / site


@dataclass(frozen=True)
class KeyPair:
    """An Ed25519 pair in OpenSSH's own text formats."""

    private: str
    public: str


def generate_key_pair() -> KeyPair:
    """Make a fresh Ed25519 pair, unencrypted: its file mode and its short life protect it."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode())


def known_hosts_text(public_keys: Mapping[str, str]) -> str:
    """Return a `known_hosts` file that pins each address to one public key (sshd(8))."""
    return "".join(f"{address} {key}\n" for address, key in sorted(public_keys.items()))


def ssh_config_text(files: KeyFiles, addresses: Mapping[str, str]) -> str:
    """Return a client configuration in which every site code is a host (ssh_config(5)).

    Args:
        files: the run's keys.
        addresses: management address of each site.
    """
    hosts = [
        f"Host {site}\n    HostName {address}\n" for site, address in sorted(addresses.items())
    ]
    return "".join(hosts) + (
        "Host *\n"
        f"    User {LOGIN}\n"
        f"    IdentityFile {_quoted(files.private_key)}\n"
        "    IdentitiesOnly yes\n"
        "    IdentityAgent none\n"
        f"    UserKnownHostsFile {_quoted(files.known_hosts)}\n"
        "    GlobalKnownHostsFile /dev/null\n"
        "    StrictHostKeyChecking yes\n"
        "    UpdateHostKeys no\n"
        "    CheckHostIP no\n"
        "    PreferredAuthentications publickey\n"
        "    BatchMode yes\n"
        f"    ConnectTimeout {CONNECT_TIMEOUT_S}\n"
        "    ServerAliveInterval 15\n"
        "    LogLevel ERROR\n"
    )


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("%", "%%") + '"'


def create_keys(run_directory: Path, addresses: Mapping[str, str]) -> KeyFiles:
    """Make and write every key of a run below `run_directory/ssh`, readable by the owner only.

    Args:
        run_directory: the run's private folder.
        addresses: management address of each site.
    """
    files = KeyFiles(run_directory / "ssh")
    (files.directory / "host_keys").mkdir(mode=0o700, parents=True)
    files.directory.chmod(0o700)
    client = generate_key_pair()
    write_private(files.private_key, client.private)
    write_private(files.public_key, client.public + "\n")
    pinned = {}
    for site, address in addresses.items():
        host = generate_key_pair()
        write_private(files.host_key(site), host.private)
        pinned[address] = host.public
    write_private(files.known_hosts, known_hosts_text(pinned))
    write_private(files.ssh_config, ssh_config_text(files, addresses))
    return files


def write_private(path: Path, text: str) -> None:
    """Write a new file that nobody but its owner could ever read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
