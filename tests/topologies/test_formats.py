from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings

from tests.topologies.strategies import topologies
from topologies.errors import UserError
from topologies.files import available, load, load_text
from topologies.formats import from_networkx, main, read_graphml, to_networkx, write_graphml
from topologies.model import Direction, Topology

ZOO = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d5"/>
  <key attr.name="label" attr.type="string" for="node" id="d3"/>
  <key attr.name="Longitude" attr.type="double" for="node" id="d2"/>
  <key attr.name="Latitude" attr.type="double" for="node" id="d1"/>
  <key attr.name="Creator" attr.type="string" for="graph" id="d7"/>
  <key attr.name="Network" attr.type="string" for="graph" id="d0"/>
  <graph edgedefault="undirected">
    <data key="d0">Alps &amp; Co</data><data key="d7">Topology Zoo Toolset</data>
    <node id="0"><data key="d1">47.37</data><data key="d2">8.54</data>
      <data key="d3">Zürich</data></node>
    <node id="1"><data key="d1">46.2</data><data key="d2">6.14</data>
      <data key="d3">Genève</data></node>
    <node id="2"><data key="d1">44.41</data><data key="d2">8.93</data>
      <data key="d3">Genova</data></node>
    <edge source="0" target="1"><data key="d5">2500000000.0</data></edge>
    <edge source="2" target="1"/>
  </graph>
</graphml>
"""


@pytest.fixture
def zoo(tmp_path: Path) -> str:
    path = tmp_path / "alps.graphml"
    path.write_text(ZOO, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", available())
def test_a_bundled_topology_survives_graphml(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.graphml"
    path.write_text(write_graphml(load(name)), encoding="utf-8")
    assert read_graphml(str(path)) == load(name)


@settings(max_examples=40, deadline=None)
@given(topologies())
def test_any_topology_survives_networkx(topology: Topology) -> None:
    assert from_networkx(to_networkx(topology)) == topology


def test_a_zoo_file_takes_rates_in_bits_and_the_users_rate_where_it_has_none(zoo: str) -> None:
    wan = read_graphml(zoo, rate_mbps=10_000).wan_directions()
    assert wan[Direction("GEN2", "ZUR")].rate_mbps == 2500
    assert wan[Direction("GEN", "GEN2")].rate_mbps == 10_000


def test_a_zoo_file_takes_delays_from_the_great_circle(zoo: str) -> None:
    """Zurich to Geneva is 224 km as the crow flies: 1.10 ms at 204 km/ms."""
    way = read_graphml(zoo, rate_mbps=100).wan_directions()[Direction("ZUR", "GEN2")]
    assert way.one_way_delay_ms == pytest.approx(224 / 204, rel=0.01)


def test_codes_come_from_cities_in_their_order_and_stay_apart(zoo: str) -> None:
    alps = read_graphml(zoo, rate_mbps=100)
    assert {site.code: site.city for site in alps.sites} == {
        "GEN": "Genova",
        "GEN2": "Genève",
        "ZUR": "Zürich",
    }


def test_a_zoo_file_keeps_its_name_and_licence(zoo: str) -> None:
    alps = read_graphml(zoo, rate_mbps=100)
    assert alps.name == "Alps_Co"
    assert alps.licence == "CC BY 4.0 (The Internet Topology Zoo)"


def test_a_rate_that_nobody_gives_is_an_error_that_names_the_field(zoo: str) -> None:
    with pytest.raises(UserError, match=r"alps.graphml: .*rate_mbps: missing"):
        read_graphml(zoo)


def test_a_node_without_a_position_is_named(zoo: str) -> None:
    text = Path(zoo).read_text(encoding="utf-8").replace('<data key="d1">44.41</data>', "")
    Path(zoo).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"node 2: no position \(1 such nodes\); give each"):
        read_graphml(zoo, rate_mbps=100)


@pytest.mark.parametrize("text", ["", "<graphml>", "no xml", "<html/>"])
def test_a_file_that_is_no_graphml_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.graphml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"bad.graphml"):
        read_graphml(str(path), rate_mbps=100)


def test_xml_entities_are_refused_before_they_unfold(tmp_path: Path) -> None:
    path = tmp_path / "bomb.graphml"
    path.write_text(f'<!DOCTYPE x [<!ENTITY a "{"b" * 99}">]>\n{ZOO}', encoding="utf-8")
    with pytest.raises(UserError, match="XML entities"):
        read_graphml(str(path), rate_mbps=100)


def test_parallel_edges_become_one_link_with_the_sum_of_rates() -> None:
    graph: nx.MultiGraph[str] = nx.MultiGraph()
    graph.add_node("AA", latitude=0, longitude=0, label="A")
    graph.add_node("BB", latitude=0, longitude=1, label="B")
    graph.add_edge("AA", "BB", rate_mbps=100, one_way_delay_ms=3)
    graph.add_edge("BB", "AA", rate_mbps=50, one_way_delay_ms=2)
    link = from_networkx(graph, access_rate_mbps=1000).links[0]
    assert (link.forward.rate_mbps, link.forward.one_way_delay_ms) == (150, 2)
    assert link.forward == link.backward


def test_an_edge_without_its_reverse_holds_both_ways() -> None:
    graph = to_networkx(load("three_city"))
    graph.remove_edge("LON", "AMS")
    assert from_networkx(graph) == load("three_city")


def test_the_command_line_converts_there_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["nine_city", "--graphml"]) == 0
    path = tmp_path / "nine.graphml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main([str(path)]) == 0
    assert load_text(capsys.readouterr().out) == load("nine_city")


def test_the_command_line_tells_a_mistake_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nowhere.graphml"]) == 2
    assert capsys.readouterr().err.startswith("nowhere.graphml: no such topology")
