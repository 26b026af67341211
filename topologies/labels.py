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
from numpy.typing import NDArray

from topologies.cartography import Floats

COST_OF_LABEL, COST_OUTSIDE, COST_OF_POINT, COST_OF_RANK = 40.0, 400.0, 0.7, 0.2
MOST_FOR_ONE_LINE = 12.0
SHARE_BEFORE = {"left": 0.0, "bottom": 0.0, "center": 0.5, "right": 1.0, "top": 1.0}
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


@dataclass(frozen=True)
class Obstacles:
    """What a label should not hide, in pixels.

    Attributes:
        frame: the axes, outside of which nothing is seen.
        boxes: one row each of left, bottom, right and top.
        points: one row each of x and y, at even steps along lines.
        line_of_point: for each point the number of its line.
    """

    frame: Bbox
    boxes: Floats
    points: Floats
    line_of_point: NDArray[np.int64]

    def cost(self, box: Bbox) -> float:
        """Return how much a label that takes this box would hide."""
        frame = self.frame
        across = box.x0 < frame.x0 or box.x1 > frame.x1
        outside = COST_OUTSIDE if across or box.y0 < frame.y0 or box.y1 > frame.y1 else 0.0
        return outside + COST_OF_LABEL * self._overlaps(box) + self._line_cost(box)

    def _overlaps(self, box: Bbox) -> float:
        """Return, over all boxes that overlap, one each and the covered part of the smaller."""
        areas = shared_areas(box, self.boxes)
        sizes = np.prod(self.boxes[:, 2:] - self.boxes[:, :2], axis=1)
        smaller = np.maximum(np.minimum(sizes, box.width * box.height), 1.0)
        return float(np.count_nonzero(areas) + np.sum(areas / smaller))

    def _line_cost(self, box: Bbox) -> float:
        hidden = np.all((self.points >= box.min) & (self.points <= box.max), axis=1)
        a_line = COST_OF_POINT * np.bincount(self.line_of_point[hidden])
        return float(np.minimum(a_line, MOST_FOR_ONE_LINE).sum())


def shared_areas(box: Bbox, boxes: Floats) -> Floats:
    """Return the area that `box` has in common with each of the boxes, given by their extents."""
    low = np.maximum(box.min, boxes[:, :2])
    high = np.minimum(box.max, boxes[:, 2:])
    return np.asarray(np.prod(np.clip(high - low, 0, None), axis=1))


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
        label = self.axes.annotate(
            text, (0, 0), xytext=(0, 0), textcoords="offset points", annotation_clip=False, **style
        )
        canvas: Any = self.canvas
        size = np.array(label.get_window_extent(canvas.get_renderer()).size)
        boxes = [self._box(spot, size) for spot in spots]
        obstacles = self._obstacles(owner)
        costs = [obstacles.cost(box) + COST_OF_RANK * rank for rank, box in enumerate(boxes)]
        best = costs.index(min(costs))
        spot = spots[best]
        label.xy = (float(spot.at[0]), float(spot.at[1]))
        label.set(position=(spot.dx, spot.dy), ha=spot.ha, va=spot.va)
        self.boxes.append(boxes[best])

    def _obstacles(self, owner: object) -> Obstacles:
        lines = [points for other, points in self.lines if other != owner and len(points)]
        return Obstacles(
            frame=self.axes.get_window_extent(),
            boxes=np.array([box.extents for box in self.boxes]).reshape(-1, 4),
            points=np.vstack([np.empty((0, 2)), *lines]),
            line_of_point=np.repeat(np.arange(len(lines)), [len(line) for line in lines]),
        )

    def _box(self, spot: Spot, size: Floats) -> Bbox:
        """Return the pixels that a label of that size takes at a spot, with some clearance."""
        pixels_per_point = self.axes.figure.dpi / 72
        x, y = self.axes.transData.transform(spot.at)
        left = x + spot.dx * pixels_per_point - SHARE_BEFORE[spot.ha] * size[0]
        bottom = y + spot.dy * pixels_per_point - SHARE_BEFORE[spot.va] * size[1]
        return Bbox.from_bounds(left, bottom, *size).padded(CLEARANCE_PIXELS)


def _every_pixels(line: Floats) -> Floats:
    """Return points of a line of pixels at even steps, so that counting them measures length."""
    if len(line) < 2:
        return line
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    steps = np.arange(0.0, float(along[-1]), STEP_PIXELS)
    return np.column_stack([np.interp(steps, along, line[:, axis]) for axis in (0, 1)])


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
