"""Figures as people read them: three digits, a unit that fits, a dash for what is not known."""

from __future__ import annotations

import math
from typing import Any

UNKNOWN = "\N{EN DASH}"
THIN_SPACE = "\N{NARROW NO-BREAK SPACE}"
BYTE_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))


def number(value: Any) -> float | None:
    """Return a finite number as it is, None for everything else (booleans too)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def digits(value: Any, significant: int = 3) -> str:
    """Return a number with that many significant digits, never in exponents up to a million."""
    read = number(value)
    if read is None:
        return UNKNOWN
    if read == 0:
        return "0"
    decimals = significant - 1 - math.floor(math.log10(abs(read)))
    if decimals > significant + 3 or decimals < -6:
        return f"{read:.{significant - 1}e}"
    return f"{round(read, decimals):,.{max(decimals, 0)}f}".replace(",", THIN_SPACE)


def with_unit(text: str, unit: str) -> str:
    """Return a text and its unit, kept on one line; no unit after a dash."""
    return text if text == UNKNOWN or not unit else f"{text}{THIN_SPACE}{unit}"


def seconds(value: Any) -> str:
    """Return a duration: milliseconds below a tenth of a second, minutes from two on."""
    read = number(value)
    if read is None:
        return UNKNOWN
    if 0 < abs(read) < 0.1:
        return with_unit(digits(1000 * read), "ms")
    if abs(read) < 120:
        return with_unit(digits(read), "s")
    minutes, rest = divmod(round(read), 60)
    return f"{minutes}{THIN_SPACE}min {rest}{THIN_SPACE}s"


def size(value: Any) -> str:
    """Return a number of bytes in decimal units, as networks count them."""
    read = number(value)
    if read is None:
        return UNKNOWN
    name, scale = next((unit for unit in BYTE_UNITS if abs(read) >= unit[1]), BYTE_UNITS[-1])
    return with_unit(digits(read / scale), name)


def rate(mbps: Any) -> str:
    """Return a rate given in Mbit/s."""
    read = number(mbps)
    if read is None:
        return UNKNOWN
    if read >= 1000:
        return with_unit(digits(read / 1000), "Gbit/s")
    return with_unit(digits(read), "Mbit/s")


def percent(value: Any, signed: bool = False) -> str:
    """Return a percentage; with its sign where it is an error."""
    read = number(value)
    if read is None:
        return UNKNOWN
    sign = "+" if signed and read > 0 else ""
    return with_unit(sign + digits(read, 2 if abs(read) < 10 else 3), "%")
