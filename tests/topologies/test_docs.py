"""What the page on topologies shows is what happens."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from topologies.files import available, load, load_text
from topologies.geography import great_circle_km
from topologies.model import Direction

PAGE = (Path(__file__).parents[2] / "docs" / "topologies.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    return match[1]


def test_the_example_file_is_a_topology() -> None:
    two = load_text(block("yaml"))
    wan = two.wan_directions()
    assert wan[Direction("NYC", "LON")].rate_mbps == 10_000
    assert wan[Direction("LON", "NYC")].rate_mbps == 2500
    assert two.access["NYC"].one_way_delay_ms == 0.2


def test_the_python_example_gives_what_its_comments_say() -> None:
    names: dict[str, object] = {}
    lines = block("python").splitlines()
    exec("\n".join(line for line in lines if re.match(r"from|nine|routes =", line)), names)
    shown = [line for line in lines if line.startswith(("routes.", "["))]
    results = [ast.literal_eval(text) for text in re.findall(r"# ([(\[\d].*)", block("python"))]
    assert [eval(line, names) for line in shown] == results
    assert len(results) == 3


def test_every_bundled_network_has_its_row() -> None:
    for name in available():
        topology = load(name)
        assert f"| `{name}` | {len(topology.sites)}, {len(topology.links)} |" in PAGE


@pytest.mark.parametrize(("a", "b", "km"), [("SEO", "TYO", 1153), ("LON", "AMS", 358)])
def test_the_two_links_faster_than_their_fibre_are_those(a: str, b: str, km: int) -> None:
    nine = load("nine_city")
    one, other = nine.site(a), nine.site(b)
    distance = great_circle_km(one.latitude, one.longitude, other.latitude, other.longitude)
    assert round(distance) == km
    assert nine.wan_directions()[Direction(a, b)].one_way_delay_ms < km / 204
