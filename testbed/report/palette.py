"""The colours of a report, by what they mean, in light and in dark.

Plots are drawn once, in the light colours, of which no two are equal. In the page each becomes a
variable of the style sheet, so that the same drawing serves light, dark and print.
"""

from __future__ import annotations

LIGHT = {
    "panel": "#ffffff",
    "ink": "#14304a",
    "muted": "#5b7083",
    "faint": "#d5dde2",
    "compute": "#2b72b8",
    "wait": "#b9c4cc",
    "exchange": "#0b9b86",
    "send": "#d97706",
    "receive": "#7a4fa3",
    "bound": "#14304b",
    "predicted": "#c02f74",
    "train": "#9db2c2",
    "bad": "#b3261e",
    "good": "#1a7f4b",
}
DARK = {
    "panel": "#16212c",
    "ink": "#e6eef5",
    "muted": "#94a7b8",
    "faint": "#2f3e4c",
    "compute": "#6aaeea",
    "wait": "#53646f",
    "exchange": "#2fc4ac",
    "send": "#f2a541",
    "receive": "#b48ae0",
    "bound": "#e6eef6",
    "predicted": "#f06aa6",
    "train": "#6d8496",
    "bad": "#ff8a80",
    "good": "#4cc38a",
}
SERIES_LIGHT = (
    "#0b7fab", "#d1495b", "#3a8f4d", "#e08a00", "#7a4fa4", "#00897b",
    "#b0417a", "#6b7a1e", "#2f4b9b", "#9a5b2c", "#5c5c8a", "#a8324a",
)  # fmt: skip
SERIES_DARK = (
    "#4cb8e0", "#ff8190", "#74c987", "#ffb84d", "#bb93e6", "#3fc4b4",
    "#ea83b3", "#b3c45a", "#8aa5f5", "#d69a68", "#a5a5d6", "#ec7d91",
)  # fmt: skip
# From hardly used to full. On a light page the fuller the darker, on a dark one the brighter.
UTILIZATION_LIGHT = (
    "#8fc1dc", "#5aa5cc", "#2f86b8", "#2467a8", "#4a4b9e", "#7a3596", "#a82680", "#c8175d",
)  # fmt: skip
UTILIZATION_DARK = (
    "#2f5f7d", "#2f7ea8", "#3a9ec4", "#55bcc9", "#8ad0a8", "#cbd77f", "#f5c65a", "#ff9d4d",
)  # fmt: skip


def series_colour(place: int) -> str:
    """Return the colour of the series, or clique, at that place."""
    return SERIES_LIGHT[place % len(SERIES_LIGHT)]


def variables() -> dict[str, tuple[str, str]]:
    """Return every variable of the style sheet: its colour in light and in dark."""
    named = {name: (LIGHT[name], DARK[name]) for name in LIGHT}
    series = zip(SERIES_LIGHT, SERIES_DARK, strict=True)
    used = zip(UTILIZATION_LIGHT, UTILIZATION_DARK, strict=True)
    return (
        named
        | {f"c{place}": pair for place, pair in enumerate(series)}
        | {f"u{place}": pair for place, pair in enumerate(used, start=1)}
    )


def variable_of() -> dict[str, str]:
    """Return, for each light colour, what stands for it in a page."""
    return {light: f"var(--{name})" for name, (light, _) in variables().items()}
