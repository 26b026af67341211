"""What a machine is and has, as plain data: the probes fill it in, the checks judge it.

Keeping the two apart lets every judgement be tested on machines that we do not own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Trial:
    """What came of really trying something on the kernel.

    Attributes:
        works: None where it could not be tried.
        message: what the kernel or the tool answered, empty when it worked.
    """

    works: bool | None
    message: str = ""


@dataclass(frozen=True)
class Privileges:
    """What this process may do."""

    root: bool
    net_admin: bool
    sys_admin: bool


@dataclass(frozen=True)
class CongestionControl:
    """TCP congestion control: the default, what the kernel has, and whether a socket may choose."""

    default: str
    available: tuple[str, ...]
    cubic_selectable: bool


@dataclass(frozen=True)
class Resources:
    """How much machine there is; the file limit is the hard one, which root may use in full."""

    cores: int
    memory_available_mib: int
    disk_free_mib: int
    open_files_limit: int


@dataclass(frozen=True)
class Clock:
    """How time passes here: what kind of machine this is and who shares its processors.

    Attributes:
        virtual_machine: vendor and product of the virtual machine, or empty.
        source: the kernel's clock source.
        steal_now_pct: processor time the hypervisor gave to others while the doctor ran.
        steal_since_boot_pct: the same since boot.
        realtime_permitted: whether a process may take real-time priority.
    """

    virtual_machine: str
    source: str
    steal_now_pct: float
    steal_since_boot_pct: float
    realtime_permitted: bool


@dataclass(frozen=True)
class Facts:
    """Everything the doctor looked at.

    Attributes:
        system: `Linux`, `Darwin`, ...
        distribution: its name and version as the distribution writes them.
        kernel: release of the running kernel.
        python: version of this interpreter.
        namespaces: whether a run's namespaces can be made.
        kernel_features: trials inside a namespace of our own, by name.
        tools: version text of each program, None where there is none.
        packages: version of each Python package, None where there is none.
        linkd: path of the compiled link daemon, None where it is not compiled.
        accelerator: path of the compiled accelerator, None where it is not compiled.
        packet_sockets: whether raw frames can be read and written (AF_PACKET).
        cgroup: `v1`, `v2`, `v1 and v2` or `none`.
        bridge_netfilter: whether iptables sees bridged frames; None where the kernel has it not.
    """

    system: str
    distribution: str
    kernel: str
    python: str
    privileges: Privileges = Privileges(False, False, False)
    namespaces: Trial = Trial(None)
    kernel_features: Mapping[str, Trial] = field(default_factory=dict, hash=False)
    tools: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    packages: Mapping[str, str | None] = field(default_factory=dict, hash=False)
    linkd: str | None = None
    accelerator: str | None = None
    packet_sockets: bool = False
    congestion_control: CongestionControl = CongestionControl("", (), False)
    cgroup: str = "none"
    bridge_netfilter: bool | None = None
    resources: Resources = Resources(0, 0, 0, 0)
    clock: Clock = Clock("", "", 0.0, 0.0, False)

    def feature_works(self, name: str) -> bool:
        """Tell whether the kernel feature was tried and worked."""
        trial = self.kernel_features.get(name)
        return trial is not None and trial.works is True
