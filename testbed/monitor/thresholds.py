"""From when on a run must not be cited, and why from there.

Busy processors alone say nothing: nine workers that train on two cores use all of both, and the
links do not care, because links and switches have real-time priority. What invalidates a run is
what reaches its figures: frames that links let go late, frames that vanish, time that a hypervisor
took, and a daemon that had no time left. Measured on two cores, nine cities at 100 Mbit/s, training
with processors up to 100 % busy:

| | with real-time priority | without |
|---|---|---|
| releases more than 4.1 ms late | 0.01 % | 2.3 % |
| worst second | 0.2 % | 12 % |
| 99th percentile of lateness, median second / worst | 0.26 / 0.5 ms | 2 / 33 ms |
| `linkd` ready and without a processor, worst second | 1.4 % | 66 % |
| steal, worst second | 1.5 % | 1.0 % |
| `linkd` / busiest switch, share of one core, worst second | 30 / 19 % | 24 / 19 % |
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """What a machine may do while a run still counts.

    Attributes:
        late_us: a release is late from here on: an edge of the buckets in which releases are
            counted, and the nearest one to the 3 ms that the 99th percentile of a loaded link's
            delay may be off.
        late_pct: of all releases of the run, late ones at most. Under it the 99th percentile of
            lateness is under `late_us`; two hundred times what a machine that keeps up shows, half
            of what one does that does not.
        sustained_s: a machine's hiccup passes in a second and does not count by itself; what lasts
            this long does.
        sustained_late_pct: of the releases of any such stretch, late ones at most.
        least_releases: of fewer frames no share is taken; a few late ones on an idle network are
            nobody's figures.
        steal_pct: of the processors, in any such stretch. Beyond it, somebody else's load decides.
        process_cpu_pct: of one processor by `linkd` or one switch's daemon, in any such stretch.
            Each works in one thread: with no time left it is the bottleneck, not the link.
        unasked_drops: frames that may vanish without the model asking for it.
    """

    late_us: float = 4096.0
    late_pct: float = 1.0
    sustained_s: float = 5.0
    sustained_late_pct: float = 5.0
    least_releases: int = 1000
    steal_pct: float = 5.0
    process_cpu_pct: float = 95.0
    unasked_drops: int = 0


DEFAULT_THRESHOLDS = Thresholds()
