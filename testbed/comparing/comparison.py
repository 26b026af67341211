"""From runs to a comparison: every variant's figures, ratios to what people use today. Pure.

Two variants are what the others are held against, whatever they are called: the *naive exchange*,
one clique of everybody in which each sends to each, and the *ring* of everybody.

Figures of runs that are not valid are left out. A variant that has no valid run keeps the figures
of the others, marked, so that there is something to look at; nothing of it may be cited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from schedules.capabilities import EXCHANGE, RING
from testbed.comparing.figures import (
    METRICS,
    PAIRED_METRICS,
    SECONDS_PER_CYCLE,
    Run,
    figures,
    link_bytes_per_cycle,
)
from testbed.comparing.intervals import Interval, median_interval, statement
from testbed.comparing.order import Inversion, inversions
from testbed.comparing.pairs import Ratio, paired_ratio
from testbed.record.files import finite

FORMAT = 1


@dataclass(frozen=True)
class Variant:
    """What came of one variant.

    Attributes:
        capability: of the network.
        collective: the kinds of its rounds.
        plan: its rounds in words.
        everybody: whether each of its rounds is one clique of all islands.
        valid: whether at least one run is valid, whose figures then are the only ones.
        runs: all of its repetitions.
        figures: of every repetition that counts, by its number.
        metrics: each over these.
        link_bytes: median bytes of a cycle on each WAN link direction.
    """

    name: str
    capability: str
    collective: str
    plan: str
    everybody: bool
    valid: bool
    runs: tuple[Run, ...]
    figures: Mapping[int, Mapping[str, float]]
    metrics: Mapping[str, Interval]
    link_bytes: Mapping[str, float]

    def values(self, metric: str) -> dict[int, float]:
        """Return a figure by repetition."""
        return {n: found[metric] for n, found in self.figures.items() if metric in found}


@dataclass(frozen=True)
class Pair:
    """One variant against another by one metric: `ratio` is a / b."""

    a: str
    b: str
    metric: str
    ratio: Ratio


@dataclass(frozen=True)
class Comparison:
    """What came of all variants of a run.

    Attributes:
        naive: name of the variant that is the naive exchange, None without one.
        ring: name of the variant that is a ring of everybody, None without one.
        inversions: pairs that the prediction orders otherwise than the measurement.
        repetitions: of the variant that has fewest runs that count.
    """

    experiment: str
    topology: str
    target_loss: float | None
    variants: tuple[Variant, ...]
    pairs: tuple[Pair, ...]
    naive: str | None
    ring: str | None
    inversions: tuple[Inversion, ...]
    repetitions: int

    @property
    def valid(self) -> bool:
        """Whether every variant has figures that may be cited."""
        return all(variant.valid for variant in self.variants)

    def variant(self, name: str) -> Variant:
        """Return the variant of this name."""
        return next(one for one in self.variants if one.name == name)

    def pair(self, a: str, b: str | None, metric: str) -> Ratio | None:
        """Return a / b by a metric; None where they were not set against one another."""
        for one in self.pairs:
            if one.metric == metric and (one.a, one.b) in ((a, b), (b, a)):
                return one.ratio if one.a == a else one.ratio.inverse
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as `comparison.json` has it."""
        written: dict[str, Any] = finite(
            {
                "format": FORMAT,
                "experiment": self.experiment,
                "topology": self.topology,
                "target_loss": self.target_loss,
                "valid": self.valid,
                "repetitions": self.repetitions,
                "statement": statement(self.repetitions),
                "naive_exchange": self.naive,
                "ring": self.ring,
                "variants": [_variant_json(variant) for variant in self.variants],
                "pairs": [_pair_json(pair) for pair in self.pairs],
                "order": {
                    "metric": SECONDS_PER_CYCLE,
                    "inverted": [asdict(one) for one in self.inversions],
                },
            }
        )
        return written


def _variant_json(variant: Variant) -> dict[str, Any]:
    return {
        "name": variant.name,
        "capability": variant.capability,
        "collective": variant.collective,
        "plan": variant.plan,
        "valid": variant.valid,
        "runs": [
            {
                "repetition": run.repetition,
                "path": run.path,
                "valid": run.valid,
                "reasons": run.reasons,
                "seed": run.manifest.get("seeds", {}).get("run"),
                "figures": figures(run),
            }
            for run in variant.runs
        ],
        "metrics": {name: asdict(interval) for name, interval in variant.metrics.items()},
        "link_bytes": dict(variant.link_bytes),
    }


def _pair_json(pair: Pair) -> dict[str, Any]:
    return {"a": pair.a, "b": pair.b, "metric": pair.metric, **asdict(pair.ratio)}


def comparison_of(runs: Sequence[Run], experiment: str, topology: str) -> Comparison:
    """Compare the variants of a run.

    Args:
        runs: every repetition of every variant, variants in order.
        experiment: its name.
        topology: name of its network.
    """
    names = list(dict.fromkeys(run.variant for run in runs))
    variants = tuple(_variant(name, [x for x in runs if x.variant == name]) for name in names)
    naive, ring = _reference(variants, EXCHANGE), _reference(variants, RING)
    targets = [run.target_loss for run in runs if run.target_loss is not None]
    return Comparison(
        experiment=experiment,
        topology=topology,
        target_loss=targets[0] if targets else None,
        variants=variants,
        pairs=_pairs(variants, [name for name in (naive, ring) if name is not None]),
        naive=naive,
        ring=ring,
        inversions=_inversions(variants),
        repetitions=min(len(variant.figures) for variant in variants),
    )


def _variant(name: str, runs: Sequence[Run]) -> Variant:
    counted = [run for run in runs if run.valid] or [run for run in runs if run.summary]
    found = {run.repetition: figures(run) for run in counted}
    metrics = {}
    for metric in METRICS:
        values = [one[metric] for one in found.values() if metric in one]
        if values:
            metrics[metric] = median_interval(values)
    return Variant(
        name=name,
        capability=str(runs[0].manifest.get("capability", "")),
        collective=", ".join(dict.fromkeys(str(x["collective"]) for x in runs[0].plan_rounds)),
        plan=plan_words(runs[0]),
        everybody=_everybody(runs[0]),
        valid=any(run.valid for run in runs),
        runs=tuple(runs),
        figures=found,
        metrics=metrics,
        link_bytes=_link_bytes(counted),
    )


def _link_bytes(runs: Sequence[Run]) -> dict[str, float]:
    each = [link_bytes_per_cycle(run.summary, run) for run in runs if run.summary]
    names = sorted({name for one in each for name in one})
    return {n: median_interval([one[n] for one in each if n in one]).median for n in names}


def _everybody(run: Run) -> bool:
    islands = (run.summary or {}).get("islands")
    return bool(run.plan_rounds) and all(
        len(x["cliques"]) == 1 and len(x["cliques"][0]) == islands for x in run.plan_rounds
    )


def plan_words(run: Run) -> str:
    """Return a plan in a few words, such as `2 rounds of 3+3+3`."""
    shapes = [
        "+".join(str(len(c)) for c in sorted(x["cliques"], key=len, reverse=True)) or "none"
        for x in run.plan_rounds
    ]
    if not shapes:
        return ""
    if len(shapes) == 1:
        return f"one clique of {shapes[0]}" if "+" not in shapes[0] else f"cliques of {shapes[0]}"
    alike = len(set(shapes)) == 1
    return f"{len(shapes)} rounds of {shapes[0] if alike else ' then '.join(shapes)}"


def _reference(variants: Sequence[Variant], collective: str) -> str | None:
    found = (x.name for x in variants if x.everybody and x.collective == collective)
    return next(found, None)


def _pairs(variants: Sequence[Variant], references: Sequence[str]) -> tuple[Pair, ...]:
    """Return every variant against the references, and every two of the same collective."""
    by_name = {variant.name: variant for variant in variants}
    couples = [(a, by_name[b]) for b in references for a in variants if a.name != b]
    for place, a in enumerate(variants):
        couples += [
            (a, b)
            for b in variants[place + 1 :]
            if a.collective == b.collective and not {a.name, b.name} & set(references)
        ]
    return tuple(
        Pair(a.name, b.name, metric, _ratio(a, b, metric))
        for a, b in couples
        for metric in PAIRED_METRICS
        if a.values(metric) and b.values(metric)
    )


def _ratio(a: Variant, b: Variant, metric: str) -> Ratio:
    of_a, of_b = a.values(metric), b.values(metric)
    both = sorted(of_a.keys() & of_b.keys())
    return paired_ratio([of_a[n] for n in both], [of_b[n] for n in both])


def _inversions(variants: Sequence[Variant]) -> tuple[Inversion, ...]:
    known = [x for x in variants if {"predicted_s", SECONDS_PER_CYCLE} <= x.metrics.keys()]
    return inversions(
        {x.name: x.metrics["predicted_s"].median for x in known},
        {x.name: x.metrics[SECONDS_PER_CYCLE].median for x in known},
        lambda a, b: _noisy(next(x for x in known if x.name == a), known, b),
    )


def _noisy(a: Variant, known: Sequence[Variant], b_name: str) -> bool | None:
    b = next(x for x in known if x.name == b_name)
    return _ratio(a, b, SECONDS_PER_CYCLE).within_noise
