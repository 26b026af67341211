from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from PIL import Image

from topologies.cartography import (
    OUTLINE_FILE,
    Window,
    arc,
    crossings,
    crowds,
    link_arcs,
    miller,
    turned,
    window_of,
)
from topologies.errors import UserError
from topologies.files import available, load
from topologies.land_outline import decoded_arcs, ring_places
from topologies.model import DirectionSpec, Link, Site, Topology
from topologies.picture import STYLE, delay_text, draw, main, picture, rate_text


@cache
def drawn(name: str) -> Figure:
    with mpl.rc_context(STYLE):
        return picture(load(name))


def texts(figure: Figure) -> list[Annotation]:
    return [text for text in figure.findobj(Annotation) if isinstance(text, Annotation)]


def box(label: Annotation) -> Any:
    canvas: Any = label.figure.canvas
    return label.get_window_extent(canvas.get_renderer())


def test_nine_city_is_cut_where_one_link_crosses() -> None:
    """Over the Bering Strait two links would be cut, in mid-Atlantic only New York to London."""
    nine = load("nine_city")
    assert crossings(nine, -170) == 2
    assert crossings(nine, -30) == 1
    assert window_of(nine).left == -30


def test_a_regional_network_shows_its_region() -> None:
    window = window_of(load("abilene"))
    assert window.width < 80
    for site in load("abilene").sites:
        x, y = window.place(site)
        assert window.left < x < window.right
        assert window.bottom < y < window.top


def test_only_the_european_cities_of_nine_city_are_crowded() -> None:
    nine = load("nine_city")
    groups = crowds(nine, window_of(nine))
    assert [[site.code for site in group] for group in groups] == [["AMS", "FRA", "LON"]]


def test_a_link_over_the_seam_is_drawn_on_both_sides() -> None:
    nine = load("nine_city")
    pieces = {(link.a, link.b): len(link_arcs(link, nine, window_of(nine))) for link in nine.links}
    assert [pair for pair, count in pieces.items() if count == 2] == [("LON", "NYC")]
    assert set(pieces.values()) == {1, 2}


def test_an_arc_joins_its_ends_and_bulges_away_from_the_equator() -> None:
    north = arc(np.array([0.0, 30.0]), np.array([40.0, 30.0]), bend=0.1)
    south = arc(np.array([40.0, -30.0]), np.array([0.0, -30.0]), bend=0.1)
    assert north[0] == pytest.approx([0, 30])
    assert north[-1] == pytest.approx([40, 30])
    assert north[60] == pytest.approx([20, 34])  # a tenth of 40 above the chord
    assert south[60] == pytest.approx([20, -34])


def test_the_projection_is_millers() -> None:
    """The same formula in its other common form, with an inverse hyperbolic sine."""
    assert np.radians(miller(45)) == pytest.approx(1.25 * np.arcsinh(np.tan(0.8 * np.pi / 4)))
    assert miller(0) == pytest.approx(0)
    assert miller(-45) == pytest.approx(-miller(45))


@pytest.mark.parametrize(
    ("longitude", "centre", "result"), [(170, -170, -190), (10, 20, 10), (-100, 200, 260)]
)
def test_a_longitude_turns_to_the_side_that_is_shown(
    longitude: float, centre: float, result: float
) -> None:
    assert turned(longitude, centre) == result


def test_points_outside_a_window_are_left_out() -> None:
    points = np.array([[0.0, 0.0], [5.0, 5.0], [11.0, 5.0], [5.0, 11.0]])
    assert Window(0, 10, 0, 10).inside(points).tolist() == [[5.0, 5.0]]


def test_a_delay_is_labelled_with_both_values_where_directions_differ() -> None:
    link = load("nine_city").links[0]
    assert delay_text(link) == "2.11 ms"
    there = type(link.forward)(100, 4.5)
    assert delay_text(type(link)(link.a, link.b, there, link.backward)) == "4.5 | 2.11 ms"


def test_rates_are_told_as_one_or_as_a_range() -> None:
    assert rate_text(load("nine_city")) == "10 Gbit/s"
    assert rate_text(load("netstorm_nine")) == "22 to 142 Mbit/s"


@pytest.mark.parametrize("name", ["nine_city", "three_city", "abilene", "netstorm_nine"])
def test_every_city_and_delay_is_labelled_and_no_two_labels_overlap(name: str) -> None:
    topology = load(name)
    labels = texts(drawn(name))
    written = sorted(label.get_text() for label in labels)
    for link in topology.links:
        assert delay_text(link) in written
    for site in topology.sites:
        assert any(site.city in text for text in written)
    by_axes = [pair for pair in combinations(labels, 2) if pair[0].axes is pair[1].axes]
    assert [pair for pair in by_axes if box(pair[0]).overlaps(box(pair[1]))] == []


@pytest.mark.parametrize("name", available())
def test_every_label_is_within_the_picture(name: str) -> None:
    figure = drawn(name)
    for label in texts(figure):
        extent = box(label)
        assert figure.bbox.contains(extent.x0, extent.y0), label.get_text()
        assert figure.bbox.contains(extent.x1, extent.y1), label.get_text()


def test_the_same_network_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw(load("nine_city"), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_png_is_a_picture_with_sea_and_land(tmp_path: Path) -> None:
    path = tmp_path / "nine.png"
    draw(load("nine_city"), path)
    with Image.open(path) as image:
        assert image.width == 1800
        colours = {c: n for n, c in image.convert("RGB").getcolors(1 << 24) or []}
    assert colours[(233, 240, 245)] > 100_000
    assert colours[(251, 250, 247)] > 100_000


def test_a_city_name_cannot_become_mathematics(tmp_path: Path) -> None:
    three = load("three_city")
    odd = (replace(three.sites[0], city="$\\frac{Cash$ & <b>"), *three.sites[1:])
    draw(replace(three, sites=odd), tmp_path / "odd.svg")


def test_a_large_network_is_drawn_with_codes_and_without_delays() -> None:
    spec = DirectionSpec(100, 5)
    codes = [f"S{number:02}" for number in range(50)]
    large = Topology(
        "large",
        tuple(Site(c, "a city", i % 60, 7 * i % 360 - 180) for i, c in enumerate(codes)),
        tuple(Link(a, b, spec, spec) for a, b in pairwise(codes)),
        dict.fromkeys(codes, spec),
        "a test",
        "CC0-1.0",
    )
    with mpl.rc_context(STYLE):
        written = {label.get_text() for label in texts(picture(large))}
    assert set(codes) <= written
    assert not any("city" in text or "ms" in text for text in written)


def test_a_format_that_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"end the name in \.svg, \.png, \.pdf"):
        draw(load("three_city"), tmp_path / "map.docx")


def test_the_command_line_tells_where_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["three_city", str(tmp_path / "no" / "map.svg")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_topojson_arcs_are_steps_on_a_grid() -> None:
    topojson = {
        "transform": {"scale": [0.5, 2.0], "translate": [-180.0, -90.0]},
        "arcs": [[[0, 0], [2, 0], [0, 3]], [[2, 3], [-2, -3]]],
    }
    arcs = decoded_arcs(topojson)
    assert arcs[0] == [(-180.0, -90.0), (-179.0, -90.0), (-179.0, -84.0)]
    assert ring_places([0, 1], arcs) == [*arcs[0], (-180.0, -90.0)]
    assert ring_places([~0], arcs) == arcs[0][::-1]


def test_the_outline_is_the_earths_land_area() -> None:
    """29 % of the Earth is land; 27 % without Antarctica's 14 of 510 million km2, within 1 %."""
    outline = json.loads(OUTLINE_FILE.read_text(encoding="utf-8"))
    assert outline["licence"] == "public domain"
    area = 0.0
    for ring in outline["rings_centidegrees"]:
        if max(ring[1::2]) <= -6000:
            continue
        x = np.unwrap(np.array(ring[::2]) / 100, period=360)
        y = np.sin(np.radians(np.array(ring[1::2]) / 100))
        area += abs(float(np.sum((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2))) / 360 / 2
    assert 0.25 < area < 0.28
