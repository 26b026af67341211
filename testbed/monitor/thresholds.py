"""From when on a run must not be cited."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """What a machine may do and a run still counts."""

    late_us: float = 4096.0
    late_pct: float = 1.0
    sustained_s: float = 5.0
    sustained_late_pct: float = 5.0
    steal_pct: float = 5.0
    process_cpu_pct: float = 95.0
    unasked_drops: int = 0


DEFAULT_THRESHOLDS = Thresholds()
