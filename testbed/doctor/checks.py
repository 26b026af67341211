"""Judges a machine: facts in, one finding per capability out; nothing here touches the machine.

A capability is *required* when no emulation can run without it here. What has a stand-in is
optional: without netem the link daemon shapes, without the kernel's switch the one in user space
forwards. So whether linkd or TUN is required depends on what else the machine has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from testbed.doctor.facts import Facts

Status = Literal["ok", "warn", "missing"]
Datapath = Literal["kernel", "userspace"]
LinkBackend = Literal["netem", "linkd"]

OLDEST_PYTHON, NEWEST_PYTHON = (3, 10), (3, 13)
# Nine workers take about 370 MB each and nine switch daemons 25 MB each, measured.
COMFORTABLE_MEMORY_MIB = 4096
COMFORTABLE_DISK_MIB = 2048
COMFORTABLE_OPEN_FILES = 4096
BEARABLE_STEAL_PCT = 5.0
# Reading these costs one to four microseconds a time or ticks coarsely; the others are read by an
# instruction of the processor.
SLOW_CLOCK_SOURCES = ("acpi_pm", "hpet", "jiffies", "pit")
BRIDGE_NETFILTER_PER_NAMESPACE_SINCE = (5, 3)
SETUP = "make setup"
VM = "use the VM: docs/vm.md"


@dataclass(frozen=True)
class Finding:
    """One capability of the machine.

    Attributes:
        name: what was looked for.
        status: `ok`, `warn` (there, or replaceable, with a consequence) or `missing`.
        detail: what was found.
        used_for: what Atoll does with it.
        remedy: how to get it; empty when nothing is to be done.
        required: whether no emulation can run without it.
    """

    name: str
    status: Status
    detail: str
    used_for: str
    remedy: str
    required: bool

    @property
    def blocks(self) -> bool:
        """Whether this alone keeps an emulation from running."""
        return self.required and self.status == "missing"


def datapath_of(facts: Facts) -> Datapath | None:
    """Return where switches forward: in the kernel if it can, else in user space, else nowhere."""
    if not facts.tools.get("ovs-vswitchd"):
        return None
    if facts.feature_works("openvswitch"):
        return "kernel"
    return "userspace" if facts.feature_works("tun") else None


def netem_works(facts: Facts) -> bool:
    """Tell whether the kernel can delay, shape and redirect, which the netem back-end needs."""
    return all(facts.feature_works(name) for name in ("netem", "htb", "mirred"))


def link_backend_of(facts: Facts) -> LinkBackend | None:
    """Return what shapes links: the kernel's netem if it can, else linkd, else nothing."""
    if netem_works(facts):
        return "netem"
    return "linkd" if facts.linkd and facts.packet_sockets else None


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Return one finding per capability, in the order in which a run meets them."""
    if facts.system != "Linux":
        return (check_system(facts), check_python(facts))
    findings: list[Finding] = []
    for check in CHECKS:
        found = check(facts)
        findings.extend([found] if isinstance(found, Finding) else found)
    return tuple(findings)


# --- shapes of findings --------------------------------------------------------------------------


def present(name: str, detail: str, used_for: str, required: bool = False) -> Finding:
    """Return a finding with which all is well."""
    return Finding(name, "ok", detail, used_for, "", required)


def warning(name: str, detail: str, used_for: str, remedy: str) -> Finding:
    """Return a finding with a consequence, which keeps nothing from running."""
    return Finding(name, "warn", detail, used_for, remedy, False)


def absent(name: str, detail: str, used_for: str, remedy: str, required: bool) -> Finding:
    """Return a finding of something that is not there."""
    return Finding(name, "missing", detail, used_for, remedy, required)


# --- the system ----------------------------------------------------------------------------------


def check_system(facts: Facts) -> Finding:
    """Only Linux has network namespaces."""
    used_for = "namespaces of nodes"
    if facts.system == "Linux":
        return present("Linux", facts.kernel, used_for, True)
    return absent("Linux", f"this is {facts.system}", used_for, VM, True)


def check_privileges(facts: Facts) -> Finding:
    """Namespaces and links need two capabilities, which root has outside most containers."""
    used_for = "building the network"
    have = facts.privileges
    if not have.root:
        remedy = f"run as root (sudo), or {VM}"
        return absent("root", "not root", used_for, remedy, True)
    lacking = [
        name
        for name, there in (("CAP_NET_ADMIN", have.net_admin), ("CAP_SYS_ADMIN", have.sys_admin))
        if not there
    ]
    if lacking:
        remedy = f"start the container privileged, or {VM}"
        return absent("root", f"root without {', '.join(lacking)}", used_for, remedy, True)
    return present("root", "with all capabilities", used_for, True)


def check_namespaces(facts: Facts) -> Finding:
    """A run lives in namespaces of its own."""
    used_for = "keeping a run to itself"
    trial = facts.namespaces
    if trial.works:
        return present("namespaces", "network, mount, UTS, PID", used_for, True)
    remedy = f"as root outside a restricted container, or {VM}"
    return absent("namespaces", trial.message or "not tried", used_for, remedy, True)


# --- the kernel ----------------------------------------------------------------------------------


MODULE_REMEDY = "a stock Debian or Ubuntu kernel (on Ubuntu with linux-modules-extra), or the VM"
UNTRIED_REMEDY = "known once namespaces can be made, as root"
NEEDED_FEATURES = {"veth": "cables between nodes", "bridge": "the management network"}


def _trial_text(facts: Facts, name: str) -> str:
    trial = facts.kernel_features.get(name)
    return trial.message if trial and trial.message else "not tried"


def _was_refused(facts: Facts, name: str) -> bool:
    trial = facts.kernel_features.get(name)
    return trial is not None and trial.works is False


def _feature_remedy(facts: Facts, name: str) -> str:
    return MODULE_REMEDY if _was_refused(facts, name) else UNTRIED_REMEDY


def check_needed_features(facts: Facts) -> list[Finding]:
    """Cables and bridges have no stand-in."""
    return [
        present(name, "works", used_for, True)
        if facts.feature_works(name)
        else absent(name, _trial_text(facts, name), used_for, _feature_remedy(facts, name), True)
        for name, used_for in NEEDED_FEATURES.items()
    ]


def check_openvswitch_datapath(facts: Facts) -> Finding:
    """The kernel's datapath forwards several times as many packets as the one in user space."""
    return _replaceable(facts, "openvswitch", "forwarding in the kernel", "no: user-space switches")


def check_tun(facts: Facts) -> Finding:
    """A switch in user space has a TAP device of its own."""
    used_for = "switches in user space"
    if facts.feature_works("tun"):
        return present("tun", "works", used_for)
    if facts.feature_works("openvswitch"):
        return present("tun", "not there, not needed", used_for)
    remedy = "modprobe tun, or the VM" if _was_refused(facts, "tun") else UNTRIED_REMEDY
    return absent("tun", _trial_text(facts, "tun"), used_for, remedy, True)


def check_netem(facts: Facts) -> Finding:
    """The kernel delays packets by netem; linkd does it where the kernel cannot."""
    return _replaceable(facts, "netem", "delay in the kernel", "no: linkd delays instead")


def check_shapers(facts: Facts) -> list[Finding]:
    """The netem back-end also needs HTB for rates and mirred to join two wire ends."""
    return [
        _replaceable(facts, name, used_for, _trial_text(facts, name))
        for name, used_for in {"htb": "rates beside netem", "mirred": "cables beside netem"}.items()
    ]


def _replaceable(facts: Facts, name: str, used_for: str, stand_in: str) -> Finding:
    if facts.feature_works(name):
        return present(name, "works", used_for)
    detail = stand_in if _was_refused(facts, name) else _trial_text(facts, name)
    return warning(name, detail, used_for, _feature_remedy(facts, name))


def check_linkd(facts: Facts) -> Finding:
    """The link daemon is required exactly where the kernel has no netem."""
    used_for = "delay in user space"
    required = not netem_works(facts)
    if facts.linkd and facts.packet_sockets:
        return present("linkd", "compiled", used_for, required)
    if facts.linkd:
        remedy = f"the capability CAP_NET_RAW: run as root, or {VM}"
        return absent(
            "linkd", "compiled, but packet sockets are refused", used_for, remedy, required
        )
    return absent("linkd", "not compiled", used_for, SETUP, required)


def check_accelerator(facts: Facts) -> Finding:
    """Sums in the network need the emulated accelerator; everything else works without."""
    used_for = "sums in the network"
    if facts.accelerator:
        return present("accelerator", "compiled", used_for)
    return warning("accelerator", "not compiled", used_for, SETUP)


def check_congestion_control(facts: Facts) -> Finding:
    """Each run pins its congestion control, on every socket where the default may not be set."""
    tcp = facts.congestion_control
    used_for = "the same TCP in every run"
    detail = f"{tcp.default or 'unknown'} of {' '.join(tcp.available) or 'none listed'}"
    if tcp.cubic_selectable:
        return present("congestion control", detail, used_for)
    remedy = "modprobe tcp_cubic, or name another congestion control for the run"
    return warning("congestion control", f"{detail}; cubic is refused", used_for, remedy)


def check_cgroup(facts: Facts) -> Finding:
    """Control groups are optional: they only bound what an island may take."""
    used_for = "limits of islands"
    if facts.cgroup != "none":
        return present("cgroup", facts.cgroup, used_for)
    return warning("cgroup", "none mounted: no limits", used_for, "mount cgroup2 on /sys/fs/cgroup")


def check_bridge_netfilter(facts: Facts) -> Finding:
    """Firewalls see bridged frames; since Linux 5.3 only those of the bridge's own namespace."""
    used_for = "frames past firewalls"
    if not facts.bridge_netfilter:
        return present("bridge netfilter", "off", used_for)
    if kernel_version(facts.kernel) >= BRIDGE_NETFILTER_PER_NAMESPACE_SINCE:
        return present("bridge netfilter", "on, but not inside a run", used_for)
    remedy = "sysctl net.bridge.bridge-nf-call-iptables=0"
    detail = "on: the host's firewall sees every run's frames"
    return warning("bridge netfilter", detail, used_for, remedy)


def kernel_version(release: str) -> tuple[int, int]:
    """Return (major, minor) of a kernel release such as `6.1.0-18-amd64`; (0, 0) if unreadable."""
    parts = release.split(".")
    try:
        return int(parts[0]), int(parts[1].split("-")[0])
    except (IndexError, ValueError):
        return 0, 0


# --- programs and packages -----------------------------------------------------------------------


@dataclass(frozen=True)
class Needed:
    """A capability made of programs or a Python package, and what it is for."""

    name: str
    parts: tuple[str, ...]
    used_for: str
    required: bool


PROGRAMS = (
    Needed(
        "Open vSwitch", ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl"), "OpenFlow switches", True
    ),
    Needed("mnexec", ("mnexec",), "processes inside a node", True),
    Needed("iproute2", ("ip", "tc"), "interfaces and queues", True),
    Needed("util-linux", ("unshare", "setpriv", "nsenter"), "namespaces of a run", True),
    Needed("ethtool", ("ethtool",), "checksum offload off", True),
    Needed("ssh", ("ssh", "sshd", "ssh-keygen"), "deployment to islands", True),
    Needed("ping", ("ping",), "round trips, one by one", False),
    Needed("tcpdump", ("tcpdump",), "packet captures", False),
    Needed("iperf3", ("iperf3",), "rates, a second opinion", False),
    Needed("socat", ("socat",), "sockets into a namespace", False),
)
PACKAGES = (
    Needed("Mininet", ("mininet",), "building nodes and cables", True),
    Needed("os-ken", ("os-ken",), "the SDN controller", True),
    Needed("Fabric", ("fabric",), "deployment to islands", True),
    Needed("PyTorch", ("torch",), "training on islands", True),
    Needed("scapy", ("scapy",), "reading captures", False),
)


def check_python(facts: Facts) -> Finding:
    """Older Pythons lack syntax we use, newer ones have not been tried."""
    used_for = "Atoll itself"
    version = kernel_version(facts.python)
    if OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        return present("Python", facts.python, used_for, True)
    if version > NEWEST_PYTHON:
        remedy = "tested up to 3.13"
        return warning("Python", f"{facts.python}, not tried yet", used_for, remedy)
    return absent("Python", facts.python, used_for, "Python 3.10 to 3.13", True)


def check_programs(facts: Facts) -> list[Finding]:
    """Every program comes from the one list of Debian packages."""
    versions = {name: short_version(text) for name, text in facts.tools.items() if text}
    return [_check_parts(needed, versions) for needed in PROGRAMS]


def check_packages(facts: Facts) -> list[Finding]:
    """Every Python package comes from pyproject.toml."""
    return [_check_parts(needed, facts.packages) for needed in PACKAGES]


def _check_parts(needed: Needed, found: Mapping[str, str | None]) -> Finding:
    lacking = [part for part in needed.parts if not found.get(part)]
    if lacking:
        detail = f"{', '.join(lacking)} not found"
        return absent(needed.name, detail, needed.used_for, SETUP, needed.required)
    version = found[needed.parts[0]] or ""
    return present(needed.name, version, needed.used_for, needed.required)


def short_version(text: str) -> str:
    """Return the version number in what a program says of itself, or the text without one."""
    if text.startswith("/") and " " not in text:
        return text
    number = re.search(r"\d+(\.\d+)+[\w+]*", text) or re.search(r"\d{6,}", text)
    return number.group() if number else text


def check_compiler(facts: Facts) -> Finding:
    """The compiler matters only while linkd is not compiled."""
    version, used_for = facts.tools.get("gcc"), "compiling linkd"
    if version:
        return present("gcc", short_version(version), used_for)
    if facts.linkd:
        return present("gcc", "not there, not needed", used_for)
    return absent("gcc", "not found", used_for, SETUP, False)


# --- how much, and how steady --------------------------------------------------------------------


def check_resources(facts: Facts) -> list[Finding]:
    """Too little of anything makes a run slow or invalid, so it is said before, not after."""
    have = facts.resources
    return [
        _at_least(
            "cores",
            f"{have.cores}",
            have.cores >= 2,
            "everything at once",
            "two cores or more; rates at a quarter on one (--rate-scale)",
        ),
        _at_least(
            "memory",
            f"{have.memory_available_mib / 1024:.1f} GiB available",
            have.memory_available_mib >= COMFORTABLE_MEMORY_MIB,
            "0.4 GiB a worker",
            f"{COMFORTABLE_MEMORY_MIB // 1024} GiB free for nine cities, or a smaller topology",
        ),
        _at_least(
            "disk",
            f"{have.disk_free_mib / 1024:.1f} GiB free",
            have.disk_free_mib >= COMFORTABLE_DISK_MIB,
            "run records and captures",
            f"{COMFORTABLE_DISK_MIB // 1024} GiB free where runs/ lies",
        ),
        _at_least(
            "open files",
            f"{have.open_files_limit} at most",
            have.open_files_limit >= COMFORTABLE_OPEN_FILES,
            "sockets of links",
            f"ulimit -Hn {COMFORTABLE_OPEN_FILES} or more",
        ),
    ]


def _at_least(name: str, detail: str, enough: bool, used_for: str, remedy: str) -> Finding:
    if enough:
        return present(name, detail, used_for)
    return warning(name, f"{detail}: little", used_for, remedy)


def check_clock(facts: Facts) -> Finding:
    """Emulated delay is only as steady as the clock under it (mininet issue 1138 on VirtualBox)."""
    clock, used_for = facts.clock, "steady delays"
    where = clock.virtual_machine or "no hypervisor seen"
    detail = f"{clock.source or 'clock source unknown'}; {where}"
    if "virtualbox" in where.lower() and facts.resources.cores > 1:
        remedy = "give VirtualBox one processor, or its paravirtual interface 'kvm'; or use KVM"
        return warning("clock", f"{detail}: delays wander", used_for, remedy)
    if clock.source in SLOW_CLOCK_SOURCES:
        remedy = "boot with clocksource=tsc, or give the VM a paravirtual clock"
        return warning("clock", f"{detail}: slow to read", used_for, remedy)
    return present("clock", detail, used_for)


def check_steal(facts: Facts) -> Finding:
    """Time that the hypervisor gives to others is missing from every measurement."""
    clock, used_for = facts.clock, "figures to trust"
    detail = f"{clock.steal_now_pct:.1f} % now, {clock.steal_since_boot_pct:.1f} % overall"
    if max(clock.steal_now_pct, clock.steal_since_boot_pct) < BEARABLE_STEAL_PCT:
        return present("steal time", detail, used_for)
    remedy = "a machine with processors of its own, or measure when it is quiet"
    return warning("steal time", detail, used_for, remedy)


def check_realtime(facts: Facts) -> Finding:
    """With real-time priority the worst delays of linkd shrink to a quarter on a busy machine."""
    used_for = "steady delays by linkd"
    if facts.clock.realtime_permitted:
        return present("real-time priority", "permitted", used_for)
    remedy = "ulimit -r 20, or CAP_SYS_NICE, in a control group with real-time budget"
    return warning("real-time priority", "refused", used_for, remedy)


Check = Callable[[Facts], Finding | list[Finding]]
CHECKS: Iterable[Check] = (
    check_system,
    check_privileges,
    check_namespaces,
    check_python,
    check_packages,
    check_programs,
    check_needed_features,
    check_openvswitch_datapath,
    check_tun,
    check_netem,
    check_shapers,
    check_linkd,
    check_accelerator,
    check_compiler,
    check_congestion_control,
    check_cgroup,
    check_bridge_netfilter,
    check_resources,
    check_clock,
    check_steal,
    check_realtime,
)
