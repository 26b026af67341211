from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.links.linkd.protocol import difference, parse_counters, text_of, words_of
from testbed.links.spec import GilbertElliott, LinkSpec
from tests.links.driver import Driver


def test_units_become_whole_numbers_of_the_smallest() -> None:
    spec = LinkSpec(
        rate_mbps=0.064, one_way_delay_ms=45.6, jitter_ms=0.001, loss_pct=0.1, queue_ms=2000, seed=9
    )
    assert words_of(spec) == {
        "rate": 64_000,
        "delay": 45_600_000,
        "jitter": 1000,
        "queue": 2_000_000_000,
        "loss": 1_000_000,
        "ge_enter": 0,
        "ge_leave": 0,
        "ge_bad": 0,
        "ge_good": 0,
        "duplicate": 0,
        "corrupt": 0,
        "reorder": 0,
        "seed": 9,
    }


def test_burst_loss_has_four_chances() -> None:
    words = words_of(LinkSpec(burst_loss=GilbertElliott(1, 25, 80, 0.5)))
    burst = {key: words[key] for key in ("ge_enter", "ge_leave", "ge_bad", "ge_good")}
    assert burst == {
        "ge_enter": 10_000_000,
        "ge_leave": 250_000_000,
        "ge_bad": 800_000_000,
        "ge_good": 5_000_000,
    }


def test_a_change_speaks_only_of_what_differs() -> None:
    old = LinkSpec(rate_mbps=10, one_way_delay_ms=5, loss_pct=1, queue_ms=50, seed=3)
    assert text_of(difference(old, old.changed(loss_pct=0))) == "loss=0"
    assert difference(old, old) == {}


@given(
    st.builds(
        LinkSpec,
        rate_mbps=st.none() | st.floats(0.064, 10_000),
        one_way_delay_ms=st.floats(0, 10_000),
        loss_pct=st.floats(0, 100),
        seed=st.integers(0, 2**64 - 1),
    )
)
def test_every_spec_fits_into_the_ranges_of_the_daemon(
    driver_settings: Callable[[str], list[str]], spec: LinkSpec
) -> None:
    assert driver_settings(text_of(words_of(spec))) == ["ok"]


@pytest.fixture(scope="module")
def driver_settings(driver_program: Path) -> Iterator[Callable[[str], list[str]]]:
    driver = Driver(driver_program)
    yield lambda text: driver.fresh().ask(f"set 0 {text}")
    assert driver.close() == 0


def test_the_daemons_own_line_of_counters_is_read(driver: Driver) -> None:
    # Two frames of 1,250 bytes in 10 ms each at 1 Mbit/s, released 10 ms and 0 ms late.
    driver.fresh("rate=1000000 queue=100000000")
    for _ in range(3):
        driver.ask("offer 0 1250")
    driver.released(20_000_000)
    index, forward, counters = parse_counters(driver.ask("counters")[0])
    assert (index, forward) == (7, False)
    assert counters.queued_frames == 1
    assert counters.lateness is not None
    assert counters.lateness.total == 2
    assert counters.lateness.max_us == 10_000.0
    assert set(counters.dropped) == {"queue", "loss", "socket", "oversize", "memory", "transmit"}


def test_a_line_of_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="linkd answered '7 sideways'"):
        parse_counters("7 sideways")
