"""What a comparison's report is made of: `comparison.json` and the rounds of its variants' runs.

The statistics are in `comparison.json` (testbed.comparing); here they are only read. Losses over
time come from the `rounds.jsonl` of each run, under `variants/<variant>/<repetition>/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from testbed.record.files import read_json, read_json_lines
from testbed.record.writer import MANIFEST, ROUNDS
from testbed.report.formats import number
from testbed.report.rounds import Clique, Round, planned_rounds, rounds_of
from topologies.errors import UserError

COMPARISON = "comparison.json"
REPORT = "report.html"


@dataclass(frozen=True)
class Metric:
    """A median over repetitions and the interval it may lie in; None for a number that is not."""

    median: float | None
    low: float | None
    high: float | None
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class VariantRun:
    """One repetition of a variant.

    Attributes:
        path: of its record, from the comparison's folder.
        has_report: whether it has a report to link to.
    """

    repetition: int
    path: str
    valid: bool
    reasons: tuple[str, ...]
    has_report: bool
    rounds: tuple[Round, ...]

    @property
    def reason(self) -> str:
        """Why its figures may not be cited, in a line; empty where they may."""
        if self.valid:
            return ""
        first, *others = self.reasons or ("no reason is recorded",)
        return first + (f"; and {len(others)} more" if others else "")


@dataclass(frozen=True)
class VariantView:
    """One variant, with what came of all its repetitions."""

    name: str
    capability: str
    collective: str
    plan: str
    valid: bool
    runs: tuple[VariantRun, ...]
    metrics: Mapping[str, Metric]
    link_bytes: Mapping[str, float]
    planned: tuple[tuple[Clique, ...], ...]


@dataclass(frozen=True)
class ComparisonView:
    """A comparison as its report shows it; `data` is the file as it is."""

    path: Path
    data: Mapping[str, Any]
    variants: tuple[VariantView, ...]

    @property
    def target_loss(self) -> float | None:
        """The held-out loss whose time is the headline, if there is one."""
        return number(self.data.get("target_loss"))

    @property
    def pairs(self) -> Sequence[Mapping[str, Any]]:
        """The ratios of two variants."""
        pairs: Sequence[Mapping[str, Any]] = self.data.get("pairs") or ()
        return pairs

    @cached_property
    def headline_metric(self) -> str:
        """What variants are ranked by: time to target if any has it, else seconds a cycle."""
        for name in ("time_to_target_s", "seconds_per_cycle", "round_s"):
            if any(
                one.metrics[name].median is not None for one in self.variants if name in one.metrics
            ):
                return name
        return "round_s"

    def best(self) -> VariantView | None:
        """Return the variant with the least headline figure, of the valid ones if there are any."""
        ranked = [
            (not one.valid, value, place)
            for place, one in enumerate(self.variants)
            if (metric := one.metrics.get(self.headline_metric))
            and (value := metric.median) is not None
        ]
        return self.variants[min(ranked)[2]] if ranked else None

    def pair(self, a: str, b: str | None, metric: str) -> Mapping[str, Any] | None:
        """Return the ratio a / b of a metric as it is written, None where there is none."""
        found = (
            x for x in self.pairs if (x.get("a"), x.get("b"), x.get("metric")) == (a, b, metric)
        )
        return next(found, None)


def view_comparison(path: Path) -> ComparisonView:
    """Read a comparison; raises UserError where there is none, RunError for a damaged file."""
    data = read_json(path / COMPARISON)
    if data is None:
        raise UserError(f"{path} has no {COMPARISON}: compare its variants first")
    variants = tuple(_variant(one, path) for one in data.get("variants") or ())
    return ComparisonView(path, data, variants)


def _variant(one: Mapping[str, Any], path: Path) -> VariantView:
    runs = tuple(_run(run, str(one.get("name")), path) for run in one.get("runs") or ())
    first = read_json(path / runs[0].path / MANIFEST) if runs else None
    return VariantView(
        name=str(one.get("name", "")),
        capability=str(one.get("capability", "")),
        collective=str(one.get("collective", "")),
        plan=str(one.get("plan") or ""),
        valid=bool(one.get("valid", True)),
        runs=runs,
        metrics={name: _metric(value) for name, value in (one.get("metrics") or {}).items()},
        link_bytes=dict(one.get("link_bytes") or {}),
        planned=tuple(planned_rounds(first or {})),
    )


def _metric(value: Mapping[str, Any]) -> Metric:
    median, low, high = (number(value.get(name)) for name in ("median", "low", "high"))
    return Metric(median, low, high, tuple(number(one) for one in value.get("values") or ()))


def _run(run: Mapping[str, Any], variant: str, path: Path) -> VariantRun:
    repetition = int(run.get("repetition") or 1)
    place = str(run.get("path") or f"variants/{variant}/{repetition}")
    folder = path / place
    manifest = read_json(folder / MANIFEST) or {}
    rows = read_json_lines(folder / ROUNDS)
    return VariantRun(
        repetition=repetition,
        path=place,
        valid=bool(run.get("valid", True)),
        reasons=tuple(str(reason) for reason in run.get("reasons") or ()),
        has_report=(folder / REPORT).is_file(),
        rounds=tuple(rounds_of(rows, manifest, ())),
    )
