"""Places the labels of a map so that they hide as little as possible.

Each label has a list of candidate places, the best first, and takes the one that covers least of
what is drawn already: other labels, cities, lines. This is the greedy form of the point-feature
labelling problem (Christensen, Marks and Shieber, 1995), which is enough for a few dozen labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

from topologies.cartography import Floats

COST_OF_LABEL, COST_OUTSIDE, COST_OF_POINT, COST_OF_RANK = 40.0, 400.0, 0.7, 0.2
MOST_FOR_ONE_LINE = 12.0
CLEARANCE_PIXELS, STEP_PIXELS = 5.0, 3.0


@dataclass(frozen=True)
class Spot:
    """Where a label may stand: at a point of the map, moved by some typographic points.

    Its left, centre or right (`ha`) and its top, centre or bottom (`va`) comes to lie there.
    """

    at: Floats
    dx: float = 0.0
    dy: float = 0.0
    ha: Literal["left", "center", "right"] = "center"
    va: Literal["top", "center", "bottom"] = "center"


@dataclass
class Labels:
    """The labels of one map and all that they should keep off."""

    axes: Axes
    canvas: FigureCanvasAgg
    boxes: list[Bbox] = field(default_factory=list)
    lines: list[tuple[object, Floats]] = field(default_factory=list)

    def keep_off_line(self, points: Floats, owner: object) -> None:
        """Let no later label but its owner's lie on these points if it can be helped."""
        self.lines.append((owner, _every_pixels(self.axes.transData.transform(points))))

    def keep_off_box(self, box: Bbox) -> None:
        """Let no later label overlap this box, in pixels, if it can be helped."""
        self.boxes.append(box)

    def put(self, text: str, spots: Sequence[Spot], owner: object, **style: Any) -> None:
        """Write `text`, the label of `owner`, at the best spot; `style` is matplotlib's."""
        label = self.axes.annotate(text, (0, 0), xytext=(0, 0), textcoords="offset points", **style)
        lines = [points for other, points in self.lines if other != owner]

        def cost(rank: int) -> float:
            self._move(label, spots[rank])
            return self._cost(self._box(label), lines) + COST_OF_RANK * rank

        self._move(label, spots[min(range(len(spots)), key=cost)])
        self.boxes.append(self._box(label))

    def _move(self, label: Any, spot: Spot) -> None:
        label.xy = (float(spot.at[0]), float(spot.at[1]))
        label.set(position=(spot.dx, spot.dy), ha=spot.ha, va=spot.va)

    def _box(self, label: Any) -> Bbox:
        canvas: Any = self.canvas
        box: Bbox = label.get_window_extent(canvas.get_renderer())
        return box.padded(CLEARANCE_PIXELS)

    def _cost(self, box: Bbox, lines: Sequence[Floats]) -> float:
        frame = self.axes.get_window_extent()
        within = frame.containsx(box.x0) and frame.containsx(box.x1)
        within = within and frame.containsy(box.y0) and frame.containsy(box.y1)
        overlaps = sum(_overlap(box, other) for other in self.boxes)
        return (
            (0.0 if within else COST_OUTSIDE)
            + COST_OF_LABEL * overlaps
            + sum(_covered(box, line) for line in lines)
        )


def _every_pixels(line: Floats) -> Floats:
    """Return points of a line of pixels at even steps, so that counting them measures length."""
    if len(line) < 2:
        return line
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    steps = np.arange(0.0, float(along[-1]), STEP_PIXELS)
    return np.column_stack([np.interp(steps, along, line[:, axis]) for axis in (0, 1)])


def _overlap(box: Bbox, other: Bbox) -> float:
    """Return 0 for two boxes apart, else 1 and the covered part of the smaller."""
    common = Bbox.intersection(box, other)
    if common is None:
        return 0.0
    smaller = min(box.width * box.height, other.width * other.height)
    return 1.0 + common.width * common.height / max(smaller, 1.0)


def _covered(box: Bbox, line: Floats) -> float:
    low, high = np.array([box.x0, box.y0]), np.array([box.x1, box.y1])
    points = int(np.all((line >= low) & (line <= high), axis=1).sum())
    return min(MOST_FOR_ONE_LINE, COST_OF_POINT * points)


def spots_around(place: Floats, gap: float) -> list[Spot]:
    """Return places right, left, above, below and at the corners of a city, in that order."""
    corner = 0.85 * gap
    return [
        Spot(place, gap, 0, "left", "center"),
        Spot(place, -gap, 0, "right", "center"),
        Spot(place, 0, gap, "center", "bottom"),
        Spot(place, 0, -gap, "center", "top"),
        Spot(place, corner, corner, "left", "bottom"),
        Spot(place, -corner, corner, "right", "bottom"),
        Spot(place, corner, -corner, "left", "top"),
        Spot(place, -corner, -corner, "right", "top"),
    ]


def spots_along(line: Floats, gap: float, tries: int = 13) -> list[Spot]:
    """Return places on a line, its middle first, then beside it, further out at last."""
    fractions = sorted(np.linspace(0.15, 0.85, tries), key=lambda f: (round(abs(f - 0.5), 6), f))
    points = [line[round(float(f) * (len(line) - 1))] for f in fractions]
    chord = line[-1] - line[0]
    across = np.array([-chord[1], chord[0]]) / max(float(np.hypot(*chord)), 1e-9)
    steps = [side * reach * gap * across for reach in (1.0, 1.7) for side in (1, -1)]
    beside = [Spot(at, float(dx), float(dy)) for dx, dy in steps for at in points]
    return [Spot(at) for at in points] + beside
