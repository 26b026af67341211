"""The doctor's report: facts, findings and the two choices that follow from them."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from testbed.doctor.checks import (
    Datapath,
    Finding,
    LinkBackend,
    datapath_of,
    judge,
    link_backend_of,
)
from testbed.doctor.facts import Facts
from testbed.doctor.probe import probe


@dataclass(frozen=True)
class Report:
    """What the doctor found.

    Attributes:
        facts: what was looked at.
        findings: one per capability.
        datapath: where switches will forward, None where they cannot.
        link_backend: what will shape links, None where nothing can.
        duration_s: how long the doctor took.
    """

    facts: Facts
    findings: tuple[Finding, ...]
    datapath: Datapath | None
    link_backend: LinkBackend | None
    duration_s: float = 0.0

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """The findings that keep an emulation from running."""
        return tuple(finding for finding in self.findings if finding.blocks)

    @property
    def can_emulate(self) -> bool:
        """Whether `atoll emulate` can run here."""
        return not self.blocking and bool(self.datapath and self.link_backend)

    @property
    def needs_vm(self) -> bool:
        """Whether this account or system can never run an emulation, whatever is installed."""
        return self.facts.system != "Linux" or not self.facts.privileges.root

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON's own types, for `--json` and the run record."""
        return {
            "can_emulate": self.can_emulate,
            "datapath": self.datapath,
            "link_backend": self.link_backend,
            "duration_s": round(self.duration_s, 3),
            "rows": [asdict(finding) for finding in self.findings],
            "facts": asdict(self.facts),
        }


def examine(facts: Facts, duration_s: float = 0.0) -> Report:
    """Judge a machine by its facts alone."""
    return Report(facts, judge(facts), datapath_of(facts), link_backend_of(facts), duration_s)


def diagnose() -> Report:
    """Look at this machine and judge it; takes under two seconds and leaves nothing behind."""
    started = time.monotonic()
    facts = probe()
    return examine(facts, time.monotonic() - started)
