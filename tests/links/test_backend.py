import pytest

from testbed.links.backend import Availability, DirectionCounters, Lateness, Wire, choose
from testbed.links.registry import Registry
from testbed.links.spec import LinkSpec
from topologies.errors import MachineError, UserError
from topologies.model import Direction

HERE = Availability()
NO_NETEM = Availability("kernel has no sch_netem", "modprobe sch_netem")
NO_LINKD = Availability("no C compiler", "apt-get install gcc")
WIRE = Wire(3, "w3a", "w3b", Direction("NYC", "LON"))


def test_netem_is_chosen_where_it_works() -> None:
    assert choose(None, {"netem": HERE, "linkd": HERE}) == "netem"


def test_linkd_is_chosen_where_netem_does_not_work() -> None:
    assert choose(None, {"netem": NO_NETEM, "linkd": HERE}) == "linkd"


def test_the_preferred_one_is_chosen() -> None:
    assert choose("linkd", {"netem": HERE, "linkd": HERE}) == "linkd"


def test_a_preferred_one_that_does_not_work_is_never_replaced() -> None:
    with pytest.raises(MachineError, match=r"netem: kernel has no sch_netem \(modprobe sch_netem"):
        choose("netem", {"netem": NO_NETEM, "linkd": HERE})


def test_without_any_both_reasons_and_remedies_are_told() -> None:
    with pytest.raises(MachineError) as refused:
        choose(None, {"netem": NO_NETEM, "linkd": NO_LINKD})
    assert str(refused.value) == (
        "links cannot be shaped here: netem: kernel has no sch_netem (modprobe sch_netem); "
        "linkd: no C compiler (apt-get install gcc)"
    )


def test_an_unknown_back_end_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="tc is no link back-end: one of netem, linkd"):
        choose("tc", {"netem": HERE, "linkd": HERE})


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (Wire(3, "w4a", "w4b", Direction("A", "B")), "wire 3 is already joined"),
        (Wire(4, "w4a", "w4b", Direction("LON", "NYC")), "direction LON>NYC is already joined"),
        (Wire(4, "w3b", "w4b", Direction("A", "B")), "w3b already belongs to link NYC>LON"),
        (Wire(4, "w4a", "w4a", Direction("A", "B")), "wire 4 has interface w4a at both ends"),
    ],
)
def test_what_is_joined_cannot_be_joined_again(other: Wire, complaint: str) -> None:
    registry = Registry()
    registry.add(WIRE, LinkSpec(), LinkSpec())
    with pytest.raises(UserError, match=complaint):
        registry.refuse_known(other)


def test_each_direction_has_its_own_ends_and_spec() -> None:
    registry = Registry()
    registry.add(WIRE, LinkSpec(rate_mbps=1), LinkSpec(rate_mbps=2))
    back = registry.lane(Direction("LON", "NYC"))
    assert (back.source_end, back.target_end, back.spec.rate_mbps) == ("w3b", "w3a", 2)
    assert registry.lane(Direction("NYC", "LON")).source_end == "w3a"


def test_a_direction_that_is_not_joined_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="NYC>SIN is no direction of a joined link"):
        Registry().lane(Direction("NYC", "SIN"))


def test_quantiles_of_lateness_are_upper_edges_of_buckets() -> None:
    late = Lateness((50, 40, 9, 0, 1), max_us=9.5)
    assert [late.quantile_us(share) for share in (0.5, 0.9, 0.99, 1.0)] == [1.0, 2.0, 4.0, 9.5]
    assert Lateness((0, 0), 0.0).quantile_us(0.99) == 0.0


def test_lateness_of_an_interval_is_a_difference() -> None:
    now, then = Lateness((5, 3), 1.5), Lateness((4, 0), 0.9)
    assert now.minus(then).bucket_counts == (1, 3)


def test_only_queue_and_loss_are_asked_for() -> None:
    counters = DirectionCounters(dropped={"queue": 5, "loss": 4, "socket": 3, "memory": 2})
    assert counters.unasked_drops == 5
