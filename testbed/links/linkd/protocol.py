"""The line protocol of `linkd`'s control socket: specs to words, answers to counters. No I/O.

A request is one line; its answer is lines up to and including one that starts with `ok` or
`error`. Numbers are whole: rates in bit/s, times in ns, chances in billionths. A `set` names only
what changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from testbed.links.backend import DROP_CAUSES, DirectionCounters, Lateness
from testbed.links.spec import GilbertElliott, LinkSpec

BILLIONTHS_PER_PERCENT = 10_000_000
NS_PER_MS = 1_000_000
PLAIN_COUNTERS = (
    "frames_in", "bytes_in", "frames_out", "bytes_out", "queued_frames", "duplicated", "corrupted"
)  # fmt: skip
NO_BURST_LOSS = {"ge_enter": 0, "ge_leave": 0, "ge_bad": 0, "ge_good": 0}


def words_of(spec: LinkSpec) -> dict[str, int]:
    """Return every setting of a direction as the daemon's key and whole number."""
    return {
        "rate": 0 if spec.rate_mbps is None else round(spec.rate_mbps * 1_000_000),
        "delay": round(spec.one_way_delay_ms * NS_PER_MS),
        "jitter": round(spec.jitter_ms * NS_PER_MS),
        "queue": round(spec.effective_queue_ms * NS_PER_MS),
        "loss": _billionths(spec.loss_pct),
        **_burst_words(spec.burst_loss),
        "duplicate": _billionths(spec.duplicate_pct),
        "corrupt": _billionths(spec.corrupt_pct),
        "reorder": int(spec.reorder),
        "seed": spec.seed,
    }


def _billionths(percent: float) -> int:
    return round(percent * BILLIONTHS_PER_PERCENT)


def _burst_words(model: GilbertElliott | None) -> dict[str, int]:
    if model is None:
        return NO_BURST_LOSS
    return {
        "ge_enter": _billionths(model.p_enter_pct),
        "ge_leave": _billionths(model.p_leave_pct),
        "ge_bad": _billionths(model.loss_in_bad_pct),
        "ge_good": _billionths(model.loss_in_good_pct),
    }


def text_of(words: Mapping[str, int]) -> str:
    """Return settings as `key=value` separated by blanks."""
    return " ".join(f"{key}={value}" for key, value in words.items())


def difference(old: LinkSpec, new: LinkSpec) -> dict[str, int]:
    """Return the words that differ, so that a seed or a chain not named is not started anew."""
    before = words_of(old)
    return {key: value for key, value in words_of(new).items() if before[key] != value}


def parse_counters(line: str) -> tuple[int, bool, DirectionCounters]:
    """Read one line of `counters`: wire index, whether forward, and the counters.

    Raises:
        ValueError: for a line that is not of this protocol.
    """
    index, way, *words = line.split()
    if way not in ("forward", "backward"):
        raise ValueError(f"linkd answered {line!r}")
    values = dict(word.split("=", 1) for word in words)
    return int(index), way == "forward", _counters(values)


def _counters(values: Mapping[str, str]) -> DirectionCounters:
    plain = {name: int(values[name]) for name in PLAIN_COUNTERS}
    return DirectionCounters(
        **plain,
        dropped={cause: int(values[f"drop_{cause}"]) for cause in DROP_CAUSES},
        lateness=Lateness(_buckets(values["late"].split(",")), int(values["late_max_ns"]) / 1000),
    )


def _buckets(numbers: Sequence[str]) -> tuple[int, ...]:
    return tuple(int(number) for number in numbers)
