"""What was asked of each link, what it does, and whether that is close enough. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testbed.calibration.figures import Measured, quantile
from testbed.calibration.loss import allowed_losses
from testbed.calibration.tolerance import Tolerance
from topologies.errors import RunError
from topologies.model import Direction, DirectionSpec

ENOUGH_OFFERED = 1.05


@dataclass(frozen=True)
class DirectionResult:
    """One direction: asked and achieved figures, and what is wrong with it.

    Attributes:
        measured: the figures and every single delay.
        unasked_drops: frames that the link back-end dropped for no reason of the model.
        faults: what is off by more than its tolerance, a phrase each.
        attempts: how often it was measured; the figures are the last attempt's.
    """

    direction: Direction
    asked: DirectionSpec
    measured: Measured
    unasked_drops: int = 0
    faults: tuple[str, ...] = ()
    attempts: int = 1

    @property
    def rate_error_pct(self) -> float | None:
        """Achieved minus asked as a share of asked; None if no rate came out."""
        achieved = self.measured.rate_mbps
        return None if achieved is None else 100 * (achieved / self.asked.rate_mbps - 1)

    @property
    def delay_error_ms(self) -> float | None:
        """Median minus asked; None if no frame came."""
        return _minus(self.measured.median_ms, self.asked.one_way_delay_ms)

    @property
    def p99_delay_error_ms(self) -> float | None:
        """99th percentile minus asked; None if no frame came."""
        return _minus(self.measured.p99_ms, self.asked.one_way_delay_ms)

    def row(self) -> dict[str, Any]:
        """Return the figures as a row of `calibration.json`."""
        measured = self.measured
        return {
            "direction": str(self.direction),
            "asked_rate_mbps": self.asked.rate_mbps,
            "achieved_rate_mbps": measured.rate_mbps,
            "rate_error_pct": self.rate_error_pct,
            "offered_rate_mbps": measured.offered_mbps,
            "asked_delay_ms": self.asked.one_way_delay_ms,
            "asked_jitter_ms": self.asked.jitter_ms,
            "achieved_delay_ms": measured.median_ms,
            "delay_error_ms": self.delay_error_ms,
            "p99_delay_ms": measured.p99_ms,
            "p99_delay_error_ms": self.p99_delay_error_ms,
            "asked_loss_pct": self.asked.loss_pct,
            "achieved_loss_pct": measured.loss_pct,
            "loss_error_pct": measured.loss_pct - self.asked.loss_pct,
            "probes": measured.probes,
            "lost": measured.lost,
            "unasked_drops": self.unasked_drops,
            "attempts": self.attempts,
            "within_tolerance": not self.faults,
            "faults": list(self.faults),
        }


def _minus(value: float | None, asked: float) -> float | None:
    return None if value is None else value - asked


@dataclass(frozen=True)
class Calibration:
    """Every direction's result.

    Attributes:
        seconds: how long calibrating took.
        thorough: whether it was the long kind.
    """

    results: tuple[DirectionResult, ...]
    tolerance: Tolerance
    seconds: float
    thorough: bool

    @property
    def off(self) -> tuple[DirectionResult, ...]:
        """The directions that are off by more than the tolerance."""
        return tuple(one for one in self.results if one.faults)

    @property
    def worst_rate_error_pct(self) -> float | None:
        """The rate error of greatest size, with its sign; None if no rate was measured."""
        return _worst(one.rate_error_pct for one in self.results)

    @property
    def worst_delay_error_ms(self) -> float | None:
        """The error of a median delay of greatest size, with its sign; None likewise."""
        return _worst(one.delay_error_ms for one in self.results)

    @property
    def worst_p99_delay_error_ms(self) -> float | None:
        """The error of a 99th percentile of greatest size, with its sign; None likewise."""
        return _worst(one.p99_delay_error_ms for one in self.results)

    def delay_errors_ms(self) -> list[float]:
        """Return the error of every single frame of all directions, sorted."""
        return sorted(
            delay_ms - one.asked.one_way_delay_ms
            for one in self.results
            for delay_ms in one.measured.one_way_ms
        )

    def require_all(self) -> Calibration:
        """Return itself; raises CalibrationError naming each link that is off."""
        if self.off:
            raise CalibrationError(self.off, len(self.results))
        return self

    def to_json(self) -> dict[str, Any]:
        """Return what `calibration.json` holds."""
        errors_ms = self.delay_errors_ms()
        return {
            "thorough": self.thorough,
            "seconds": self.seconds,
            "tolerance": asdict(self.tolerance),
            "within_tolerance": not self.off,
            "worst_rate_error_pct": self.worst_rate_error_pct,
            "worst_delay_error_ms": self.worst_delay_error_ms,
            "worst_p99_delay_error_ms": self.worst_p99_delay_error_ms,
            "frame_delay_error_ms": {
                "p50": quantile(errors_ms, 0.5),
                "p99": quantile(errors_ms, 0.99),
                "max": quantile(errors_ms, 1.0),
            },
            "directions": [one.row() for one in self.results],
        }


def _worst(errors: Iterable[float | None]) -> float | None:
    return max((error for error in errors if error is not None), key=abs, default=None)


class CalibrationError(RunError):
    """Links that are off by more than their tolerance.

    Attributes:
        results: one for each such direction.
    """

    def __init__(self, results: Sequence[DirectionResult], of: int) -> None:
        self.results = tuple(results)
        links = "; ".join(f"{one.direction}: {', '.join(one.faults)}" for one in results)
        super().__init__(
            f"{len(results)} of {of} link directions are not what the topology asks for: {links}"
        )


def judge(
    asked: DirectionSpec,
    measured: Measured,
    unasked_drops: int,
    tolerance: Tolerance,
    directions: int,
) -> tuple[str, ...]:
    """Return what is off by more than its tolerance, with asked and achieved figures.

    Args:
        asked: of the direction by the topology.
        measured: what it did.
        unasked_drops: frames that the back-end dropped for no reason of the model.
        tolerance: what is close enough.
        directions: how many are judged together, among which the doubt about loss is shared.
    """
    faults = [
        _rate_fault(asked, measured, tolerance),
        *_delay_faults(asked, measured, tolerance),
        _loss_fault(asked, measured, tolerance.loss_doubt / max(1, directions)),
        f"{unasked_drops} frames dropped that nobody asked to drop" if unasked_drops else "",
    ]
    return tuple(fault for fault in faults if fault)


def _rate_fault(asked: DirectionSpec, measured: Measured, tolerance: Tolerance) -> str:
    achieved = measured.rate_mbps
    if achieved is None:
        return f"rate asked {asked.rate_mbps:g} Mbit/s, nothing came"
    if abs(achieved / asked.rate_mbps - 1) * 100 <= tolerance.rate_pct:
        return ""
    fault = f"rate asked {asked.rate_mbps:g} Mbit/s, achieved {achieved:.4g}"
    if achieved < asked.rate_mbps and measured.offered_mbps < ENOUGH_OFFERED * asked.rate_mbps:
        offered = f"{measured.offered_mbps:.4g}"
        return f"{fault} (this machine could offer no more than {offered}: lower the rate scale)"
    return fault


def _delay_faults(
    asked: DirectionSpec, measured: Measured, tolerance: Tolerance
) -> tuple[str, ...]:
    median_ms, p99_ms = measured.median_ms, measured.p99_ms
    if median_ms is None or p99_ms is None:
        return ()  # the loss says it
    asked_ms, jitter_ms = asked.one_way_delay_ms, asked.jitter_ms
    faults = []
    if abs(median_ms - asked_ms) > tolerance.median_delay_ms + jitter_ms:
        faults.append(f"one-way delay asked {asked_ms:g} ms, median {median_ms:.3f}")
    if p99_ms - asked_ms - jitter_ms > tolerance.p99_delay_ms:
        faults.append(f"one-way delay asked {asked_ms:g} ms, 99th percentile {p99_ms:.3f}")
    return tuple(faults)


def _loss_fault(asked: DirectionSpec, measured: Measured, doubt: float) -> str:
    least, most = allowed_losses(measured.probes, asked, doubt)
    if least <= measured.lost <= most:
        return ""
    return f"loss asked {asked.loss_pct:g} %, {measured.lost} of {measured.probes} frames were lost"
