"""Whether samples say that the machine kept up; each reason tells when and how much. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from testbed.monitor.readings import FidelitySample
from testbed.monitor.thresholds import Thresholds

Samples = Sequence[FidelitySample]


@dataclass(frozen=True)
class Stretch:
    """Samples in a row and the mean of one figure over them.

    Attributes:
        first: place of the first sample.
        last: place of the last sample.
    """

    first: int
    last: int
    mean: float


def judge(
    samples: Samples, thresholds: Thresholds, measured: tuple[float, float] | None = None
) -> list[str]:
    """Return why a run with these samples is invalid, a sentence each; empty if it is not.

    Args:
        samples: a second each.
        thresholds: from when on.
        measured: UNIX times of the first and the last moment that figures are of; what the machine
            did before, while workers started, is nobody's figure. All samples, if not given.
    """
    if measured is not None:
        samples = during(samples, *measured, least_s=thresholds.sustained_s)
    reasons = [
        _drops_reason(samples, thresholds),
        _late_reason(samples, thresholds),
        _sustained_late_reason(samples, thresholds),
        _steal_reason(samples, thresholds),
        _links_reason(samples, thresholds),
        _switch_reason(samples, thresholds),
    ]
    return [reason for reason in reasons if reason]


def during(samples: Samples, begin: float, end: float, least_s: float = 0.0) -> Samples:
    """Return the samples that tell of some time; with some before it, if it is under `least_s`."""
    upto = [sample for sample in samples if sample.time - sample.interval_s < end]
    lasted, kept = 0.0, len(upto)
    while kept and (upto[kept - 1].time > begin or lasted < least_s):
        kept -= 1
        lasted += upto[kept].interval_s
    return upto[kept:]


def _drops_reason(samples: Samples, thresholds: Thresholds) -> str:
    total: Counter[str] = Counter()
    for sample in samples:
        total.update(sample.unasked_drops)
    if sum(total.values()) <= thresholds.unasked_drops:
        return ""
    when = next(place for place, sample in enumerate(samples) if sample.unasked_drops)
    frames = ", ".join(f"{direction} {count}" for direction, count in sorted(total.items()))
    return (
        f"links dropped {sum(total.values())} frames that neither loss nor queue asked for "
        f"({frames}), the first {_span(samples, when, when)}"
    )


def _late_reason(samples: Samples, thresholds: Thresholds) -> str:
    share = late_pct(samples)
    if share <= thresholds.late_pct or _releases(samples) < thresholds.least_releases:
        return ""
    worst = max(range(len(samples)), key=lambda place: samples[place].late_releases)
    second = samples[worst]
    return (
        f"links let go {share:.2g} % of {_releases(samples)} frames more than "
        f"{thresholds.late_us / 1000:.1f} ms late, at most {thresholds.late_pct:g} % are "
        f"tolerated; most of them {_span(samples, worst, worst)}: "
        f"{second.late_releases} of {second.releases}"
    )


def _releases(samples: Samples) -> int:
    return sum(sample.releases or 0 for sample in samples)


def late_pct(samples: Samples) -> float:
    """Return the share of all releases that were late; 0 of no releases."""
    releases = _releases(samples)
    return 100 * sum(sample.late_releases for sample in samples) / releases if releases else 0.0


def _sustained_late_reason(samples: Samples, thresholds: Thresholds) -> str:
    worst = max(
        (
            Stretch(first, last, late_pct(samples[first : last + 1]))
            for first, last in stretches(samples, thresholds.sustained_s)
            if _releases(samples[first : last + 1]) >= thresholds.least_releases
        ),
        key=lambda stretch: stretch.mean,
        default=None,
    )
    if worst is None or worst.mean <= thresholds.sustained_late_pct:
        return ""
    return (
        f"links let go {worst.mean:.2g} % of frames more than {thresholds.late_us / 1000:.1f} ms "
        f"late {_span(samples, worst.first, worst.last)}, "
        f"at most {thresholds.sustained_late_pct:g} % are tolerated"
    )


def _steal_reason(samples: Samples, thresholds: Thresholds) -> str:
    worst = worst_stretch(samples, thresholds.sustained_s, lambda sample: sample.steal_pct)
    if worst is None or worst.mean <= thresholds.steal_pct:
        return ""
    return (
        f"the hypervisor took {worst.mean:.2g} % of the processors "
        f"{_span(samples, worst.first, worst.last)}, "
        f"at most {thresholds.steal_pct:g} % are tolerated"
    )


def _links_reason(samples: Samples, thresholds: Thresholds) -> str:
    worst = worst_stretch(
        samples, thresholds.sustained_s, lambda sample: sample.links_cpu_pct or 0.0
    )
    if worst is None or worst.mean <= thresholds.process_cpu_pct:
        return ""
    return (
        f"the process that shapes links had no time left: {worst.mean:.0f} % of a core "
        f"{_span(samples, worst.first, worst.last)}"
    )


def _switch_reason(samples: Samples, thresholds: Thresholds) -> str:
    worst = worst_stretch(
        samples, thresholds.sustained_s, lambda sample: sample.busiest_switch_cpu_pct
    )
    if worst is None or worst.mean <= thresholds.process_cpu_pct:
        return ""
    sites = {sample.busiest_switch for sample in samples[worst.first : worst.last + 1]}
    names = ", ".join(sorted(site for site in sites if site))
    return (
        f"the switch daemon of {names} had no time left: {worst.mean:.0f} % of a core "
        f"{_span(samples, worst.first, worst.last)}"
    )


def worst_stretch(
    samples: Samples, seconds: float, figure: Callable[[FidelitySample], float]
) -> Stretch | None:
    """Return the stretch of at least `seconds` with the largest mean of `figure`, weighed by time.

    None if the samples do not last so long.
    """
    found = [
        Stretch(first, last, _mean(samples[first : last + 1], figure))
        for first, last in stretches(samples, seconds)
    ]
    return max(found, key=lambda stretch: stretch.mean, default=None)


def _mean(samples: Samples, figure: Callable[[FidelitySample], float]) -> float:
    seconds = sum(sample.interval_s for sample in samples)
    return sum(figure(sample) * sample.interval_s for sample in samples) / seconds


def stretches(samples: Samples, seconds: float) -> list[tuple[int, int]]:
    """Return first and last place of each shortest run of samples that lasts `seconds`."""
    found = []
    last, lasted = -1, 0.0
    for first, sample in enumerate(samples):
        while lasted < seconds - 1e-6 and last + 1 < len(samples):
            last += 1
            lasted += samples[last].interval_s
        if lasted < seconds - 1e-6:
            break
        found.append((first, last))
        lasted -= sample.interval_s
    return found


def _span(samples: Samples, first: int, last: int) -> str:
    """Return when that was, in seconds since the first sample and by the clock of the record."""
    began = samples[0].time - samples[0].interval_s
    begin, end = samples[first].time - samples[first].interval_s, samples[last].time
    return f"between {begin - began:.0f} s and {end - began:.0f} s (UNIX time {begin:.0f})"
