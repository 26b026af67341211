from __future__ import annotations

import json
from dataclasses import replace

import pytest

from testbed.doctor.checks import Finding, datapath_of, judge, link_backend_of, short_version
from testbed.doctor.facts import Clock, CongestionControl, Facts, Privileges, Resources, Trial
from testbed.doctor.report import examine
from tests.doctor.machines import BARE_KERNEL, STOCK_DEBIAN, without_features, without_tools


def finding(facts: Facts, name: str) -> Finding:
    return next(found for found in judge(facts) if found.name == name)


def test_a_stock_machine_emulates_with_kernel_switches_and_netem() -> None:
    report = examine(STOCK_DEBIAN)
    assert (report.can_emulate, report.datapath, report.link_backend) == (True, "kernel", "netem")
    assert [found.name for found in report.findings if found.status != "ok"] == []


def test_a_kernel_without_netem_and_openvswitch_emulates_in_user_space() -> None:
    report = examine(BARE_KERNEL)
    assert (report.can_emulate, report.datapath, report.link_backend) == (
        True,
        "userspace",
        "linkd",
    )
    assert finding(BARE_KERNEL, "netem").status == "warn"
    assert finding(BARE_KERNEL, "openvswitch").status == "warn"


def test_linkd_is_required_exactly_where_netem_does_not_work() -> None:
    uncompiled = replace(BARE_KERNEL, linkd=None)
    assert finding(uncompiled, "linkd").blocks
    assert not examine(uncompiled).can_emulate
    with_netem = replace(STOCK_DEBIAN, linkd=None)
    assert not finding(with_netem, "linkd").blocks
    assert examine(with_netem).can_emulate


def test_without_an_accelerator_all_works_but_sums_in_the_network() -> None:
    found = finding(replace(STOCK_DEBIAN, accelerator=None), "accelerator")
    assert not found.blocks
    assert found.status == "warn"


def test_linkd_without_packet_sockets_is_not_a_back_end() -> None:
    refused = replace(BARE_KERNEL, packet_sockets=False)
    assert link_backend_of(refused) is None
    assert finding(refused, "linkd").blocks


@pytest.mark.parametrize("missing", ["htb", "mirred"])
def test_netem_alone_is_not_a_back_end(missing: str) -> None:
    assert link_backend_of(without_features(STOCK_DEBIAN, missing)) == "linkd"


def test_tun_is_required_exactly_where_switches_run_in_user_space() -> None:
    assert finding(without_features(BARE_KERNEL, "tun"), "tun").blocks
    assert not finding(without_features(STOCK_DEBIAN, "tun"), "tun").blocks


def test_no_switch_program_means_no_datapath_whatever_the_kernel_has() -> None:
    facts = without_tools(STOCK_DEBIAN, "ovs-vswitchd")
    assert datapath_of(facts) is None
    assert finding(facts, "Open vSwitch").detail == "ovs-vswitchd not found"
    assert not examine(facts).can_emulate


def test_a_finding_of_several_programs_names_those_that_lack() -> None:
    facts = without_tools(STOCK_DEBIAN, "sshd", "ssh-keygen")
    assert finding(facts, "ssh").detail == "sshd, ssh-keygen not found"
    assert finding(facts, "ssh").blocks


@pytest.mark.parametrize("tool", ["tcpdump", "iperf3"])
def test_an_emulation_runs_without_optional_programs(tool: str) -> None:
    facts = without_tools(STOCK_DEBIAN, tool)
    assert finding(facts, tool).status == "missing"
    assert examine(facts).can_emulate


def test_the_compiler_matters_only_until_linkd_is_compiled() -> None:
    no_compiler = without_tools(STOCK_DEBIAN, "gcc")
    assert finding(no_compiler, "gcc").status == "ok"
    assert finding(replace(no_compiler, linkd=None), "gcc").status == "missing"


def test_another_system_is_sent_to_the_vm() -> None:
    report = examine(Facts("Darwin", "macOS-15.1", "24.1.0", "3.12.1"))
    assert [found.name for found in report.findings] == ["Linux", "Python"]
    assert not report.can_emulate
    assert "docs/vm.md" in report.findings[0].remedy


def test_without_root_no_emulation_runs() -> None:
    user = replace(STOCK_DEBIAN, privileges=Privileges(False, False, False))
    assert not examine(user).can_emulate
    assert "docs/vm.md" in finding(user, "root").remedy


def test_root_of_a_restricted_container_is_told_which_capability_lacks() -> None:
    contained = replace(STOCK_DEBIAN, privileges=Privileges(True, True, False))
    assert finding(contained, "root").detail == "root without CAP_SYS_ADMIN"
    assert not examine(contained).can_emulate


def test_refused_namespaces_stop_an_emulation_with_the_kernels_words() -> None:
    words = "unshare: unshare failed: Operation not permitted"
    refused = replace(STOCK_DEBIAN, namespaces=Trial(False, words))
    assert finding(refused, "namespaces").detail == words
    assert finding(refused, "namespaces").blocks


def test_a_feature_that_was_not_tried_is_not_called_missing_from_the_kernel() -> None:
    untried = replace(STOCK_DEBIAN, namespaces=Trial(False, "refused"), kernel_features={})
    for name in ("veth", "bridge", "tun", "netem", "openvswitch", "htb", "mirred"):
        assert finding(untried, name).detail == "not tried"
        assert "kernel" not in finding(untried, name).remedy


@pytest.mark.parametrize(
    ("python", "status"),
    [
        ("3.9.18", "missing"),
        ("3.10.0", "ok"),
        ("3.13.0", "ok"),
        ("3.14.0", "warn"),
        ("4.0.0", "warn"),
    ],
)
def test_python_is_judged_by_its_version(python: str, status: str) -> None:
    assert finding(replace(STOCK_DEBIAN, python=python), "Python").status == status


def test_bridge_netfilter_matters_only_before_linux_5_3() -> None:
    on = replace(STOCK_DEBIAN, bridge_netfilter=True)
    assert finding(replace(on, kernel="4.19.0-25-amd64"), "bridge netfilter").status == "warn"
    assert finding(replace(on, kernel="5.2.0"), "bridge netfilter").status == "warn"
    assert finding(replace(on, kernel="5.3.0"), "bridge netfilter").status == "ok"
    off = replace(on, bridge_netfilter=False, kernel="4.19.0")
    assert finding(off, "bridge netfilter").status == "ok"


def test_virtualbox_is_warned_of_only_with_several_processors() -> None:
    box = replace(STOCK_DEBIAN.clock, virtual_machine="innotek GmbH VirtualBox")
    two = replace(STOCK_DEBIAN, clock=box)
    one = replace(two, resources=replace(two.resources, cores=1))
    assert finding(two, "clock").status == "warn"
    assert finding(one, "clock").status == "ok"


@pytest.mark.parametrize(
    ("source", "status"),
    [("tsc", "ok"), ("kvm-clock", "ok"), ("hpet", "warn"), ("jiffies", "warn")],
)
def test_slow_clock_sources_are_warned_of(source: str, status: str) -> None:
    clock = replace(STOCK_DEBIAN.clock, source=source)
    assert finding(replace(STOCK_DEBIAN, clock=clock), "clock").status == status


@pytest.mark.parametrize(
    "clock",
    [
        replace(STOCK_DEBIAN.clock, steal_now_pct=7.5),
        replace(STOCK_DEBIAN.clock, steal_since_boot_pct=7.5),
    ],
)
def test_stolen_processor_time_is_warned_of(clock: Clock) -> None:
    stolen = finding(replace(STOCK_DEBIAN, clock=clock), "steal time")
    assert stolen.status == "warn"
    assert "7.5 %" in stolen.detail


def test_a_small_machine_is_warned_of_every_shortage_and_may_run() -> None:
    small = replace(STOCK_DEBIAN, resources=Resources(1, 1024, 500, 1024))
    warned = {found.name for found in judge(small) if found.status == "warn"}
    assert warned == {"cores", "memory", "disk", "open files"}
    assert examine(small).can_emulate


def test_a_refused_congestion_control_is_warned_of() -> None:
    reno_only = replace(
        STOCK_DEBIAN, congestion_control=CongestionControl("reno", ("reno",), False)
    )
    assert finding(reno_only, "congestion control").status == "warn"


def test_whatever_is_not_well_has_a_remedy() -> None:
    everything_wrong = replace(
        BARE_KERNEL,
        privileges=Privileges(False, False, False),
        namespaces=Trial(False, "no"),
        kernel_features={},
        tools={},
        packages={},
        linkd=None,
        cgroup="none",
        bridge_netfilter=True,
        kernel="4.4.0",
        python="3.8.0",
        resources=Resources(1, 1, 1, 1),
    )
    for found in judge(everything_wrong):
        assert (found.remedy != "") == (found.status != "ok"), found
        assert found.used_for, found


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("ovs-vswitchd (Open vSwitch) 3.1.0", "3.1.0"),
        ("OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19 27 Jan 2026", "9.2p1"),
        ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "12.2.0"),
        ("ip utility, iproute2-6.1.0, libbpf 1.1.2", "6.1.0"),
        ("ping from iputils 20221126", "20221126"),
        ("/usr/bin/mnexec", "/usr/bin/mnexec"),
        ("no number at all", "no number at all"),
    ],
)
def test_a_version_is_read_out_of_what_a_program_says(text: str, version: str) -> None:
    assert short_version(text) == version


def test_the_report_is_json_with_a_row_a_capability() -> None:
    report = examine(BARE_KERNEL)
    back = json.loads(json.dumps(report.to_json()))
    assert back["can_emulate"] is True
    assert back["datapath"] == "userspace"
    assert back["link_backend"] == "linkd"
    assert len(back["rows"]) == len(report.findings)
    assert set(back["rows"][0]) == {"name", "status", "detail", "used_for", "remedy", "required"}
