import pytest

from testbed.benching.options import checked_collectives, checked_percentage, parse_size, sizes
from topologies.errors import UserError


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("64K", 65536), ("4m", 4 * 2**20), ("4MB", 4_000_000), ("1 GB", 10**9)],
)
def test_sizes_are_read_as_nccl_tests_reads_them_and_decimal_with_a_b(text: str, size: int) -> None:
    assert parse_size("-b", text) == size


@pytest.mark.parametrize("text", ["", "4B", "4.5M", "-4", "0", "4Mbit", "6"])
def test_what_is_no_size_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(UserError, match=r"^-e: "):
        parse_size("-e", text)


def test_each_size_is_the_factor_times_the_one_before() -> None:
    assert sizes(1024, 20_000, 4) == (1024, 4096, 16384)


@pytest.mark.parametrize(("begin", "end", "factor"), [(8, 4, 2), (4, 8, 1), (4, 8, 0)])
def test_a_range_that_is_empty_or_never_ends_is_refused(begin: int, end: int, factor: int) -> None:
    with pytest.raises(UserError):
        sizes(begin, end, factor)


def test_an_unknown_collective_is_named_with_those_there_are() -> None:
    with pytest.raises(UserError, match="'tree' is none of exchange, ring"):
        checked_collectives(["ring", "tree"])


@pytest.mark.parametrize("value", [-1.0, 100.0, float("nan")])
def test_a_percentage_is_within_0_and_100(value: float) -> None:
    with pytest.raises(UserError, match="--loss-pct"):
        checked_percentage("--loss-pct", value)
