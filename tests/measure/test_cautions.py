"""What a forecast warns of, by hand: what does not fit into a queue is lost."""

from __future__ import annotations

from schedules.capabilities import Capabilities
from schedules.constraints import Constraints
from schedules.network import Network
from schedules.plan import PlannedRound
from schedules.problem import Problem
from schedules.ring import best_ring_order
from testbed.experiment.rounds import best_round, ring_of
from testbed.measure.cautions import cautions, queues_ms
from testbed.measure.forecast import forecast
from topologies.files import load
from topologies.model import Direction
from topologies.routing import Routes, least_delay_routes

UNICAST = Capabilities.parse("unicast")


def scaled(topology: str, rate_scale: float) -> Routes:
    return least_delay_routes(load(topology).scaled(rate_scale))


def everyone(routes: Routes, kind: str, message_bytes: float) -> PlannedRound:
    network, limits = Network.of(routes.topology), Constraints()
    problem = Problem(network, UNICAST, "mean", kind, message_bytes, limits, True)
    if kind == "ring":
        return ring_of(problem, best_ring_order(routes.topology))
    return best_round(problem, [routes.topology.codes], kind)


def test_queues_hold_fifty_milliseconds_or_the_longest_round_trip() -> None:
    near = queues_ms(scaled("three_city", 0.01))
    assert set(near.values()) == {50.0}
    far = queues_ms(scaled("nine_city", 0.01))
    assert round(far[Direction("LON", "AMS")]) == 315


def test_a_rings_two_segments_may_be_more_than_a_port_holds() -> None:
    # Three islands: six segments. 50 ms of 20 Mbit/s are 125 KB, and two segments of 1 MB 333 KB.
    routes = scaled("three_city", 0.002)
    (said,) = cautions(everyone(routes, "ring", 1e6), routes, 1_000_000)
    assert said.startswith("2 segments of 167 KB do not fit into 50 ms of queue")
    assert cautions(everyone(routes, "ring", 1e6), routes, 300_000) == ()


def test_frames_of_many_flows_may_be_more_than_a_link_holds() -> None:
    # 24 flows meet on Abilene's busiest direction; a frame takes 3.6 ms there at 20 Mbit/s.
    slow, fast = scaled("abilene", 0.002), scaled("abilene", 0.005)
    (said,) = cautions(everyone(slow, "exchange", 1e6), slow, 1_000_000)
    assert said.startswith("a frame of each of 24 flows does not fit into")
    assert cautions(everyone(fast, "exchange", 1e6), fast, 1_000_000) == ()


def test_a_forecast_says_so() -> None:
    routes = scaled("three_city", 0.002)
    found = forecast(everyone(routes, "ring", 1e6), routes, 1_000_000)
    assert "it may take longer, for 2 segments of 167 KB do not fit" in found.statement
