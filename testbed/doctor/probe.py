"""Looks at the machine; every probe is small, and none leaves anything behind.

Kernel features are found by using them inside a namespace of our own that ends with the trial. A
list of modules would not do: a kernel may have a feature built in, have it as a module not loaded
yet, or have a module that it refuses to load (a container, Secure Boot).
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed.accelerator.build import PROGRAM as ACCELERATOR
from testbed.doctor.facts import Clock, CongestionControl, Facts, Privileges, Resources, Trial
from testbed.links.linkd.build import PROGRAM as LINKD

# On a machine under software emulation a program takes seconds to start; only one that hangs takes
# longer than this.
PROBE_TIMEOUT_S = 60.0
TIMED_OUT, NOT_STARTED, NOT_FOUND = 124, 126, 127  # as a shell and timeout(1) number them
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])

# What makes each program tell its version; the first line it prints is kept.
VERSION_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "ovs-vswitchd": ("--version",),
    "ovsdb-server": ("--version",),
    "ovs-vsctl": ("--version",),
    "mnexec": (),
    "ip": ("-V",),
    "tc": ("-V",),
    "ssh": ("-V",),
    "sshd": ("-V",),
    "ssh-keygen": (),
    "tcpdump": ("--version",),
    "ethtool": ("--version",),
    "ping": ("-V",),
    "iperf3": ("--version",),
    "socat": (),
    "unshare": ("--version",),
    "setpriv": ("--version",),
    "nsenter": ("--version",),
    "gcc": ("--version",),
}
PACKAGES = ("mininet", "os-ken", "fabric", "torch", "scapy")
MODULES = ("veth", "bridge", "tun", "sch_htb", "sch_tbf", "sch_netem", "act_mirred", "openvswitch")

# Each command uses one feature for real. A namespace starts with `lo` alone, and takes everything
# that was made in it along when it ends.
TRIALS: Mapping[str, str] = {
    "veth": "ip link add atoll0 type veth peer name atoll1",
    "bridge": "ip link add atoll2 type bridge",
    "tun": "ip tuntap add dev atoll3 mode tap",
    "htb": "tc qdisc replace dev lo root handle 1: htb default 1",
    "tbf": "tc qdisc replace dev lo root handle 2: tbf rate 1mbit burst 10kb latency 10ms",
    "netem": "tc qdisc replace dev lo root handle 3: netem delay 1ms",
    "mirred": (
        "tc qdisc add dev lo ingress && tc filter add dev lo parent ffff: protocol all"
        " u32 match u32 0 0 action mirred egress redirect dev lo"
    ),
    "openvswitch": "ovs-dpctl add-dp atoll4",
}
NAMESPACES = ("--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
AS_ROOT_OF_ITS_OWN = ("--user", "--map-root-user")


def probe() -> Facts:
    """Return the facts of this machine; takes well under two seconds.

    On a system that is not Linux only its name and Python are looked at.
    """
    system = Facts(
        system=platform.system(),
        distribution=distribution(),
        kernel=platform.release(),
        python=platform.python_version(),
    )
    return _probe_linux(system) if system.system == "Linux" else system


def _probe_linux(system: Facts) -> Facts:
    ticks_before = processor_ticks()
    privileges = read_privileges(_read("/proc/self/status"), os.geteuid())
    load_modules(privileges)
    namespaces, features = try_kernel(privileges)
    return Facts(
        system=system.system,
        distribution=system.distribution,
        kernel=system.kernel,
        python=system.python,
        privileges=privileges,
        namespaces=namespaces,
        kernel_features=features,
        tools=tool_versions(),
        packages={name: package_version(name) for name in PACKAGES},
        linkd=compiled(LINKD),
        accelerator=compiled(ACCELERATOR),
        packet_sockets=packet_sockets(),
        congestion_control=congestion_control(),
        cgroup=cgroup_version(),
        bridge_netfilter=bridge_netfilter(),
        resources=resources(),
        clock=clock(ticks_before),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _run(argv: Sequence[str]) -> tuple[int, str]:
    """Run a program for its exit code, or one of the above, and all it printed."""
    program = shutil.which(argv[0], path=SEARCH_PATH)
    if program is None:
        return NOT_FOUND, f"{argv[0]}: not found"
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
            env={**os.environ, "PATH": SEARCH_PATH, "LC_ALL": "C"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TIMED_OUT, f"{argv[0]}: no answer in {PROBE_TIMEOUT_S:.0f} s"
    except OSError as error:
        return NOT_STARTED, f"{argv[0]}: {error.strerror}"
    return done.returncode, done.stdout.decode(errors="replace").strip()


# --- who we are ----------------------------------------------------------------------------------


def distribution() -> str:
    """Return the distribution's own name for itself, or what Python knows of the platform."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)


def read_privileges(status: str, effective_uid: int) -> Privileges:
    """Read the effective capabilities out of /proc/self/status (capabilities(7) numbers them)."""
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    effective = int(lines.get("CapEff", "0"), 16)
    net_admin, sys_admin = 12, 21
    return Privileges(
        root=effective_uid == 0,
        net_admin=bool(effective >> net_admin & 1),
        sys_admin=bool(effective >> sys_admin & 1),
    )


# --- the kernel ----------------------------------------------------------------------------------


def load_modules(privileges: Privileges) -> None:
    """Load the modules a run uses where this kernel has modules; failures show in the trials."""
    if privileges.root and Path("/lib/modules", platform.release()).is_dir():
        _run(["modprobe", "--quiet", "--all", *MODULES])


def try_kernel(privileges: Privileges) -> tuple[Trial, dict[str, Trial]]:
    """Make a run's namespaces and use every kernel feature inside them.

    Without root this happens in a user namespace, where a failure proves nothing: the kernel loads
    no modules for it. Such a trial counts as not made.
    """
    prefix = () if privileges.root else AS_ROOT_OF_ITS_OWN
    code, output = _run(["unshare", *prefix, *NAMESPACES, "--", "sh", "-c", trial_script()])
    if code != 0:
        return Trial(False, output.splitlines()[-1] if output else f"exit code {code}"), {}
    features = read_trials(output)
    if not privileges.root:
        features = {
            name: trial if trial.works else Trial(None, "only root can find out")
            for name, trial in features.items()
        }
    return Trial(True), features


def trial_script() -> str:
    """Return a shell script that prints one line a trial: name, exit code, last line of output."""
    function = (
        'try() { out=$(sh -c "$2" 2>&1); '
        'printf "%s\\t%s\\t%s\\n" "$1" "$?" "$(printf %s "$out" | tail -n 1)"; }'
    )
    calls = [f"try {name} {shlex.quote(command)}" for name, command in TRIALS.items()]
    return "\n".join([function, *calls, "exit 0"])


def read_trials(output: str) -> dict[str, Trial]:
    """Read what the trial script printed; lines of another shape are not its own and are passed."""
    trials = {}
    for line in output.splitlines():
        name, _, rest = line.partition("\t")
        code, tab, message = rest.partition("\t")
        if tab and name in TRIALS:
            trials[name] = Trial(True) if code == "0" else Trial(False, message)
    return trials


def packet_sockets() -> bool:
    """Tell whether this process may open a raw packet socket."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except OSError:
        return False
    return True


def congestion_control() -> CongestionControl:
    """Return TCP's congestion control as this namespace has it; cubic is really asked for."""
    available = _read("/proc/sys/net/ipv4/tcp_available_congestion_control").split()
    try:
        with socket.socket() as tcp:
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        selectable = True
    except OSError:
        selectable = False
    default = _read("/proc/sys/net/ipv4/tcp_congestion_control")
    return CongestionControl(default, tuple(available), selectable)


def cgroup_version(root: str = "/sys/fs/cgroup") -> str:
    """Return which control-group hierarchies are mounted."""
    if Path(root, "cgroup.controllers").exists():
        return "v2"
    has_v1 = Path(root, "cpu").is_dir()
    has_v2 = Path(root, "unified", "cgroup.controllers").exists()
    if has_v1 and has_v2:
        return "v1 and v2"
    return "v1" if has_v1 else "none"


def bridge_netfilter() -> bool | None:
    """Tell whether bridged frames pass iptables."""
    setting = _read("/proc/sys/net/bridge/bridge-nf-call-iptables")
    return setting == "1" if setting else None


# --- programs and packages -----------------------------------------------------------------------


def tool_versions() -> dict[str, str | None]:
    """Return the version line of every program, None for those that are not installed."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip(VERSION_COMMANDS, pool.map(tool_version, VERSION_COMMANDS), strict=True))


def tool_version(program: str) -> str | None:
    """Return the first line a program prints about its version, or its path if it tells none."""
    path = shutil.which(program, path=SEARCH_PATH)
    arguments = VERSION_COMMANDS[program]
    if path is None or not arguments:
        return path
    code, output = _run([path, *arguments])
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[0] if lines and code not in (TIMED_OUT, NOT_STARTED) else path


def package_version(name: str) -> str | None:
    """Return an installed package's version without importing it."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def compiled(program: Path) -> str | None:
    """Return the path of a program of ours, None where it is not compiled."""
    return str(program) if program.is_file() and os.access(program, os.X_OK) else None


# --- how much, and how steady --------------------------------------------------------------------


def resources() -> Resources:
    """Return the processors this process may use, and free memory, disk and files."""
    meminfo = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines())
    available_kib = int(meminfo.get("MemAvailable", "0 kB").split()[0])
    _, open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Resources(
        cores=len(os.sched_getaffinity(0)),
        memory_available_mib=available_kib // 1024,
        disk_free_mib=shutil.disk_usage(Path.cwd()).free // 2**20,
        open_files_limit=open_files,
    )


def clock(ticks_before: tuple[int, int]) -> Clock:
    """Return what keeps time here, and the steal since `ticks_before` and since boot."""
    ticks = processor_ticks()
    return Clock(
        virtual_machine=virtual_machine(),
        source=_read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        steal_now_pct=steal_pct(ticks_before, ticks),
        steal_since_boot_pct=steal_pct((0, 0), ticks),
        realtime_permitted=_run(["chrt", "--fifo", "20", "true"])[0] == 0,
    )


def processor_ticks() -> tuple[int, int]:
    """Return (stolen, all) clock ticks of all processors since boot, from /proc/stat (proc(5))."""
    first_line = _read("/proc/stat").partition("\n")[0].split()
    user_to_steal = [int(ticks) for ticks in first_line[1:9]]
    return (user_to_steal[7], sum(user_to_steal)) if len(user_to_steal) == 8 else (0, 0)


def steal_pct(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Return the share of processor time stolen between two readings."""
    stolen, total = after[0] - before[0], after[1] - before[1]
    return 100.0 * stolen / total if total > 0 else 0.0


def virtual_machine() -> str:
    """Return the virtual machine's vendor and product, or empty on what seems to be hardware."""
    flags = _read("/proc/cpuinfo").partition("\nflags")[2].partition("\n")[0].split()
    if "hypervisor" not in flags:
        return ""
    vendor, product = (_read(f"/sys/class/dmi/id/{key}") for key in ("sys_vendor", "product_name"))
    return " ".join(part for part in (vendor, product) if part) or "virtual machine"
