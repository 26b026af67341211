"""Machines that the doctor is shown in tests, each as the facts it would have found there."""

from __future__ import annotations

from dataclasses import replace

from testbed.doctor.facts import Clock, CongestionControl, Facts, Privileges, Resources, Trial
from testbed.doctor.probe import PACKAGES, TRIALS, VERSION_COMMANDS

STOCK_DEBIAN = Facts(
    system="Linux",
    distribution="Debian GNU/Linux 12 (bookworm)",
    kernel="6.1.0-18-amd64",
    python="3.11.2",
    privileges=Privileges(root=True, net_admin=True, sys_admin=True),
    namespaces=Trial(True),
    kernel_features={name: Trial(True) for name in TRIALS},
    tools={name: f"{name} 1.2.3" for name in VERSION_COMMANDS},
    packages=dict.fromkeys(PACKAGES, "4.5.6"),
    linkd="testbed/links/linkd",
    accelerator="testbed/accelerator",
    packet_sockets=True,
    congestion_control=CongestionControl("cubic", ("reno", "cubic"), cubic_selectable=True),
    cgroup="v2",
    bridge_netfilter=None,
    resources=Resources(
        cores=2, memory_available_mib=16384, disk_free_mib=50000, open_files_limit=1048576
    ),
    clock=Clock("", "tsc", 0.0, 0.0, realtime_permitted=True),
)


def without_features(facts: Facts, *names: str) -> Facts:
    """Return the machine with these kernel features refused."""
    refused = {name: Trial(False, "Error: Specified qdisc kind is unknown.") for name in names}
    return replace(facts, kernel_features={**facts.kernel_features, **refused})


def without_tools(facts: Facts, *names: str) -> Facts:
    """Return the machine with these programs not installed."""
    return replace(facts, tools={**facts.tools, **dict.fromkeys(names)})


BARE_KERNEL = without_features(STOCK_DEBIAN, "netem", "openvswitch")
