from __future__ import annotations

from testbed.deploy.island_files import (
    IslandSeat,
    hosts_text,
    passwd_text,
    shadow_text,
    sshd_config_text,
)

NYC = IslandSeat("NYC", 71, "10.255.0.6", "10.0.0.3")
LON = IslandSeat("LON", 70, "10.255.0.4", "10.0.0.2")


def test_the_host_name_is_the_site_code_in_lower_case() -> None:
    assert NYC.host_name == "nyc"


def test_hosts_names_wan_and_management_addresses_of_all_islands() -> None:
    assert hosts_text([NYC, LON]).splitlines() == [
        "127.0.0.1 localhost",
        "::1 localhost ip6-localhost ip6-loopback",
        "10.0.0.2 lon",
        "10.0.0.3 nyc",
        "10.255.0.4 lon-mgmt",
        "10.255.0.6 nyc-mgmt",
    ]


def test_root_lives_in_the_islands_tmp_and_all_other_accounts_stay() -> None:
    host = (
        "root:x:0:0:root:/root:/usr/bin/fish\n"
        "rootless:x:1:1::/:/bin/sh\n"
        "sshd:x:104:65534::/run/sshd:/nologin\n"
    )
    assert passwd_text(host).splitlines() == [
        "root:x:0:0:root:/tmp:/bin/bash",
        "rootless:x:1:1::/:/bin/sh",
        "sshd:x:104:65534::/run/sshd:/nologin",
    ]


def test_root_has_no_password_and_is_not_locked() -> None:
    name, password, *rest = shadow_text().strip().split(":")
    assert (name, password, len(rest)) == ("root", "*", 7)


def test_sshd_listens_on_the_management_address_only() -> None:
    lines = sshd_config_text(NYC, python="/opt/venv/bin/python").splitlines()
    assert [line for line in lines if line.startswith("ListenAddress")] == [
        "ListenAddress 10.255.0.6:22"
    ]
    assert (
        'SetEnv "PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"'
        in sshd_config_text(NYC, python="/opt/venv/bin/python")
    )
