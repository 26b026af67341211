from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from testbed.report.world_map import PHONE, WIDE, View, land_path, world_map
from topologies.cartography import Window, miller, window_of
from topologies.files import load
from topologies.model import Access, DirectionSpec, Link, Site, Topology

NINE = load("nine_city")


def test_degrees_become_units_with_y_down() -> None:
    view = View(Window(-10.0, 90.0, -40.0, 60.0), scale=10.0)
    assert view.points(np.array([[-10.0, 60.0], [0.0, 0.0]])).tolist() == [[0, 0], [100, 600]]


def test_every_city_link_and_direction_is_on_the_map() -> None:
    drawn = world_map(NINE, WIDE)
    assert [dot.code for dot in drawn.panel.dots] == list(NINE.codes)
    assert {strand.direction for strand in drawn.panel.strands} == {
        str(direction) for direction in NINE.wan_directions()
    }
    assert drawn.panel.width == 1000


def test_a_city_stands_where_the_projection_puts_it() -> None:
    window, site = window_of(NINE), NINE.site("SIN")
    dot = next(d for d in world_map(NINE, WIDE).panel.dots if d.code == "SIN")
    scale = 1000 / window.width
    assert dot.x == pytest.approx((site.longitude - window.left) % 360 * scale, abs=0.06)
    assert dot.y == pytest.approx((window.top - miller(site.latitude)) * scale, abs=0.06)


def test_each_city_is_named_once_in_the_map_or_a_close_up() -> None:
    for style in (WIDE, PHONE):
        drawn = world_map(NINE, style)
        panels = (drawn.panel, *drawn.insets, *drawn.below)
        assert sorted(x.code for panel in panels for x in panel.labels) == list(NINE.codes)


def test_close_ups_lie_inside_the_wide_map_and_below_the_phones() -> None:
    wide, phone = world_map(NINE, WIDE), world_map(NINE, PHONE)
    (inset,) = wide.insets
    assert 0 <= inset.x <= wide.panel.width - inset.width
    assert 0 <= inset.y <= wide.panel.height - inset.height
    assert not wide.below
    assert not phone.insets
    assert phone.below[0].width == pytest.approx(phone.panel.width)
    assert len(wide.frames) == 1
    assert len(wide.leads) == 2
    assert phone.leads == ()


def east_and_west() -> Topology:
    spec = DirectionSpec(1000, 1)
    sites = (Site("EAS", "East", 0.0, 20.0), Site("WES", "West", 0.0, 0.0))
    access = {"EAS": Access(1000), "WES": Access(1000)}
    return Topology("two", sites, (Link("EAS", "WES", spec, spec),), access, "made up", "none")


def middle_y(path: str) -> float:
    ys = [float(y) for _, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]
    return ys[len(ys) // 2]


def test_traffic_keeps_right_of_its_link() -> None:
    drawn = world_map(east_and_west(), WIDE).panel
    road = middle_y(drawn.roads[0])
    by_direction = {strand.direction: middle_y(strand.path) for strand in drawn.strands}
    assert by_direction["WES>EAS"] == pytest.approx(road + 3.2, abs=0.15)  # eastward: south
    assert by_direction["EAS>WES"] == pytest.approx(road - 3.2, abs=0.15)


def test_the_outline_of_land_is_closed_rings_in_whole_steps() -> None:
    path = land_path([window_of(NINE)])
    assert path.count("M") == path.count("z") > 50
    assert re.fullmatch(r"(M-?\d+ -?\d+l[-+\d ]*z)+", path)
    assert len(land_path([window_of(load("three_city"))])) < len(path)


def test_a_network_of_a_hundred_cities_has_dots_and_no_names() -> None:
    spec = DirectionSpec(1000, 1)
    sites = tuple(Site(f"S{i:03}", f"City {i}", -60 + i, 3.4 * i - 170) for i in range(100))
    links = tuple(Link(a.code, b.code, spec, spec) for a, b in pairwise(sites))
    access = {site.code: Access(1000) for site in sites}
    drawn = world_map(Topology("many", sites, links, access, "made up", "none"), WIDE)
    assert len(drawn.panel.dots) == 100
    assert drawn.panel.labels == ()
    assert drawn.insets == ()
