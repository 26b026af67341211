"""Which link back-ends work on this machine, found out by doing, not by reading version numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from testbed.links.backend import Availability, LinkBackend
from testbed.links.linkd_backend import LinkdBackend
from testbed.links.netem_backend import NetemBackend
from testbed.links.spec import LinkSpec
from testbed.links.trial import Trial
from topologies.errors import AtollError

NETEM_REMEDY = "modprobe sch_netem sch_ingress cls_u32 act_mirred act_police, or --links linkd"
LINKD_REMEDY = "run as root, with gcc installed"
SAMPLE = LinkSpec(rate_mbps=100.0, one_way_delay_ms=1.0, jitter_ms=0.5, loss_pct=1.0)


def netem_available() -> Availability:
    """Return whether the kernel can shape a wire, tried on one in namespaces of its own."""
    return _tried(NetemBackend, NETEM_REMEDY)


def linkd_available() -> Availability:
    """Return whether the daemon can be built and can shape a wire, tried likewise."""
    with tempfile.TemporaryDirectory(prefix="atoll-probe-") as folder:
        return _tried(lambda: LinkdBackend.start(Path(folder), realtime=False), LINKD_REMEDY)


def probe() -> Mapping[str, Availability]:
    """Return every back-end's availability, as `choose` takes it."""
    return {"netem": netem_available(), "linkd": linkd_available()}


def _tried(start: Callable[[], LinkBackend], remedy: str) -> Availability:
    try:
        with Trial() as trial, trial.middle.entered():
            backend = start()
            try:
                backend.join(trial.wires[0], SAMPLE, SAMPLE)
            finally:
                backend.close()
    except (AtollError, OSError) as error:
        return Availability(missing=str(error), remedy=remedy)
    return Availability()
