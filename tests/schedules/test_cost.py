"""Loads and traversals of whole cliques against the arithmetic of the nine cities and others."""

import pytest

from schedules.capabilities import Capabilities
from schedules.cost import cost_of_round
from topologies.errors import UserError
from topologies.files import load

BOTH = Capabilities.parse("multicast+aggregation")
TRIPLES = [("AMS", "FRA", "LON"), ("BAR", "LAX", "NYC"), ("SEO", "SIN", "TYO")]


@pytest.mark.parametrize(
    ("topology", "collective", "transfer_units", "traversals"),
    [
        ("nine_city", "exchange", 13, 178),
        ("nine_city", "multicast", 8, 72),
        ("nine_city", "aggregation", 8, 72),
        ("nine_city", "innetwork", 1, 16),
        ("abilene", "exchange", 24, 276),
        ("abilene", "multicast", 10, 110),
        ("abilene", "aggregation", 10, 110),
        ("abilene", "innetwork", 1, 20),
    ],
)
def test_full_clique_costs_what_hand_arithmetic_says(
    topology: str, collective: str, transfer_units: float, traversals: float
) -> None:
    network = load(topology)
    cost = cost_of_round(network, [network.codes], collective, BOTH)
    assert cost.transfer_units == pytest.approx(transfer_units)
    assert cost.traversals == pytest.approx(traversals)


def test_ring_of_nine_cities_takes_sixteen_ninths_of_a_message() -> None:
    nine = load("nine_city")
    assert cost_of_round(nine, [nine.codes], "ring", BOTH).transfer_units == pytest.approx(16 / 9)


def test_regional_triples_exchange_nine_pairs_a_unit_with_24_traversals() -> None:
    cost = cost_of_round(load("nine_city"), TRIPLES, "exchange", Capabilities.parse("unicast"))
    assert cost.pairs / cost.transfer_units == pytest.approx(9.0)
    assert cost.traversals == pytest.approx(24)


def test_a_collective_that_the_network_cannot_do_is_refused() -> None:
    nine = load("nine_city")
    with pytest.raises(UserError, match="innetwork"):
        cost_of_round(nine, [nine.codes], "innetwork", Capabilities.parse("multicast"))


def test_an_unknown_capability_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UserError, match="unicast, multicast, aggregation"):
        Capabilities.parse("telepathy")
