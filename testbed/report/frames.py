"""What the map shows at each place of its slider: cliques, and how full every direction was.

There are two ways to go through a run. By *rounds*, a direction's utilization is what it carried in
the round over what it could have carried while the islands exchanged. By *time*, it is the mean of
a short, even stretch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.report.material import Material
from testbed.report.rounds import Clique, Round
from testbed.report.traffic import edges_s, extent_s, rates_mbps, utilization_pct

MOST_STRETCHES, MOST_STRETCHES_LARGE = 240, 120
MOST_ROUND_FRAMES = 400
LARGE_DIRECTIONS = 150
LEVELS = 8  # colours of utilization


@dataclass(frozen=True)
class Frame:
    """One place of the slider.

    Attributes:
        label: what round it is.
        cliques: who exchanges.
        utilization_pct: of each direction, whole percents, in the order of `Frames.directions`.
    """

    label: str
    cliques: tuple[Clique, ...]
    utilization_pct: tuple[int, ...]


@dataclass(frozen=True)
class Stretch:
    """One even stretch of time; `round_place` is -1 where no round is on.

    Attributes:
        start_s: seconds since the first of them began.
        round_place: place of its round among the frames of rounds.
        utilization_pct: of each direction, whole percents.
        wan_mbps: rate of all links between cities together.
    """

    start_s: float
    round_place: int
    utilization_pct: tuple[int, ...]
    wan_mbps: float


@dataclass(frozen=True)
class Frames:
    """All places of the slider; `directions` are those whose rate is known."""

    directions: tuple[str, ...]
    rounds: tuple[Frame, ...]
    stretches: tuple[Stretch, ...]
    stretch_s: float
    islands: int
    whole_rounds: bool = False

    def to_data(self) -> dict[str, Any]:
        """Return what the page's script reads."""
        return {
            "directions": self.directions,
            "islands": self.islands,
            "rounds": [_frame_data(frame) for frame in self.rounds],
            "stretches": [
                {"t": round(x.start_s, 2), "r": x.round_place, "u": x.utilization_pct}
                for x in self.stretches
            ],
        }


def _frame_data(frame: Frame) -> dict[str, Any]:
    return {
        "label": frame.label,
        "cliques": [clique.sites for clique in frame.cliques],
        "kinds": [clique.kind for clique in frame.cliques],
        "u": frame.utilization_pct,
    }


def frames_of(material: Material, rounds: Sequence[Round], whole_rounds: bool) -> Frames:
    """Return the frames of a run.

    Args:
        material: the record.
        rounds: its rounds.
        whole_rounds: whether a round's traffic had the whole round's time, not that of the exchange
            alone.
    """
    directions = tuple(material.rates_mbps)
    shown = rounds[:MOST_ROUND_FRAMES]
    stretches, length = _stretches(material, shown)
    return Frames(
        directions=directions,
        rounds=tuple(_round_frame(one, material.rates_mbps, whole_rounds) for one in shown),
        stretches=stretches,
        stretch_s=length,
        whole_rounds=whole_rounds,
        islands=len(material.sites),
    )


def _round_frame(one: Round, rates: Mapping[str, float], whole_rounds: bool) -> Frame:
    span = one.end - one.start if whole_rounds or not one.exchange_s else one.exchange_s
    carried = [int(one.link_bytes.get(direction, 0)) for direction in rates]
    used = [utilization_pct(b, span, r) for b, r in zip(carried, rates.values(), strict=True)]
    kinds = " and ".join(one.kinds) or "nobody exchanged"
    return Frame(
        f"Round {one.number + 1}: {kinds}",
        one.cliques,
        tuple(round(pct) for pct in used),
    )


def _stretches(material: Material, rounds: Sequence[Round]) -> tuple[tuple[Stretch, ...], float]:
    """Return the even stretches of a run and the length of each in seconds."""
    start, end = extent_s(material.links, rounds)
    if end <= start:
        return (), 0.0
    large = len(material.rates_mbps) > LARGE_DIRECTIONS
    edges = edges_s(start, end, MOST_STRETCHES_LARGE if large else MOST_STRETCHES)
    series = {str(direction): one for direction, one in material.links.items()}
    silent = np.zeros(len(edges) - 1)
    by_direction = {
        direction: rates_mbps(series[direction], edges) if direction in series else silent
        for direction in material.rates_mbps
    }
    asked = np.array(list(material.rates_mbps.values()))
    carried = np.array(list(by_direction.values())).reshape(len(asked), len(edges) - 1)
    used = np.minimum(100, np.round(100 * carried / asked[:, None])).astype(int)
    wan = sum((rates for name, rates in by_direction.items() if ".island" not in name), silent)
    middles = (edges[:-1] + edges[1:]) / 2
    return tuple(
        Stretch(
            float(edges[place] - start),
            _round_at(float(middles[place]), rounds),
            tuple(used[:, place].tolist()),
            float(wan[place]),
        )
        for place in range(len(middles))
    ), float(edges[1] - edges[0])


def _round_at(time_s: float, rounds: Sequence[Round]) -> int:
    return next((i for i, one in enumerate(rounds) if one.start <= time_s < one.end), -1)


def level(pct: float) -> int:
    """Return which of the colours 1 to LEVELS a utilization has; 0 for less than half a percent."""
    return 0 if pct < 0.5 else min(LEVELS, 1 + int(pct * LEVELS / 100))


def width(pct: float, widest: float = 6.5) -> float:
    """Return how wide a direction is drawn, in the map's units."""
    return 0.0 if pct < 0.5 else round(1.2 + (widest - 1.2) * min(pct, 100) / 100, 1)
