"""Plans on a map: every city and clique named, nothing on top of anything, loads in the widths."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from schedules.picture import IDLE, clique_colour, draw_plan, plan_picture
from schedules.plan import Plan
from schedules.planner import plan
from topologies.errors import UserError
from topologies.files import load
from topologies.picture import STYLE

CASES = [
    ("nine_city", "multicast", "multicast", "mean"),
    ("nine_city", "unicast", "exchange", "exchange"),
    ("three_city", "multicast+aggregation", "innetwork", "fair"),
]


@cache
def shown(*case: str) -> Figure:
    return drawn(planned(*case))


@cache
def planned(name: str, capability: str, collective: str, objective: str) -> Plan:
    return plan(load(name), capability, objective, collective=collective)


def drawn(found: Plan) -> Figure:
    with mpl.rc_context(STYLE):
        figure = plan_picture(found, load(found.topology))
        FigureCanvasAgg(figure).draw()
    return figure


def texts(figure: Figure) -> list[Text]:
    return [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]


def box(text: Text) -> Bbox:
    return text.get_window_extent().padded(-1)


@pytest.mark.parametrize("case", CASES)
def test_no_two_words_overlap_and_all_are_within_the_picture(case: tuple[str, ...]) -> None:
    figure = shown(*case)
    written = texts(figure)
    pairs = [
        (a.get_text(), b.get_text())
        for a, b in combinations(written, 2)
        if (a.axes is b.axes or a.axes is None or b.axes is None) and box(a).overlaps(box(b))
    ]
    assert pairs == []
    whole = figure.bbox.padded(1)
    outside = [
        text.get_text()
        for text in written
        if not (whole.contains(*box(text).min) and whole.contains(*box(text).max))
    ]
    assert outside == []


@pytest.mark.parametrize("case", CASES)
def test_every_panel_names_every_city_and_every_clique_in_its_colour(
    case: tuple[str, ...],
) -> None:
    found = planned(*case)
    written = texts(shown(*case))
    for code in load(found.topology).codes:
        assert sum(text.get_text() == code for text in written) == len(found.rounds)
    for one in found.rounds:
        for place, clique in enumerate(one.cliques):
            chip = f"\N{BLACK CIRCLE} {' '.join(clique)}"
            colours = [text.get_color() for text in written if text.get_text() == chip]
            assert clique_colour(place) in colours


def test_a_link_is_as_wide_as_its_load_and_an_idle_city_is_white() -> None:
    found = planned("nine_city", "unicast", "exchange", "exchange")
    (axes,) = drawn(found).axes
    lines = [line for line in axes.lines if line.get_marker() != "o"]
    strands = {line.get_linewidth() for line in lines if line.get_color() == clique_colour(1)}
    # {BAR LAX NYC} loads both its links with 2 messages each way, all other directions with none.
    assert strands == {8.0}
    pair = replace(found, rounds=(replace(found.rounds[0], cliques=(("LAX", "NYC"),)),))
    (axes,) = drawn(pair).axes
    idle = [line for line in axes.lines if line.get_markerfacecolor() == IDLE]
    assert len([line for line in idle if line.get_marker() == "o"]) == 7


def test_only_the_most_run_rounds_of_many_are_shown() -> None:
    found = planned("three_city", "multicast+aggregation", "innetwork", "fair")
    figure = plan_picture(replace(found, rounds=found.rounds * 20), load("three_city"))
    assert len(figure.axes) == 8
    assert any("the 8 most run of 20 rounds" in text.get_text() for text in texts(figure))


def test_the_same_plan_gives_the_same_bytes(tmp_path: Path) -> None:
    found = planned("three_city", "multicast+aggregation", "innetwork", "fair")
    for name in ("one.svg", "two.svg"):
        draw_plan(found, load("three_city"), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_plan_of_another_network_is_refused(tmp_path: Path) -> None:
    found = planned("three_city", "multicast+aggregation", "innetwork", "fair")
    with pytest.raises(UserError, match="is no site of abilene"):
        draw_plan(found, load("abilene"), tmp_path / "plan.png")
