"""When the daemon releases a frame, by hand arithmetic. 1,250 bytes at 1 Mbit/s take 10 ms."""

import math
from statistics import mean

import pytest

from tests.links.driver import Driver

MS = 1_000_000
ONE_MBIT = "rate=1000000 queue=1000000000"


def test_a_frame_is_released_after_its_wire_time_and_the_delay(driver: Driver) -> None:
    driver.fresh(f"{ONE_MBIT} delay={20 * MS}")
    driver.ask("offer 0 1250")
    assert driver.released(30 * MS - 1) == []
    assert driver.released(30 * MS) == [(0, 30 * MS)]


def test_a_frame_waits_for_the_one_before_it(driver: Driver) -> None:
    driver.fresh(ONE_MBIT)
    driver.ask("offer 0 1250")
    driver.ask(f"offer {4 * MS} 1250")
    assert driver.released(100 * MS) == [(0, 10 * MS), (1, 20 * MS)]


def test_the_transmitter_does_not_save_up_idle_time(driver: Driver) -> None:
    driver.fresh(ONE_MBIT)
    driver.ask("offer 0 1250")
    driver.ask(f"offer {500 * MS} 1250")
    assert driver.released(1000 * MS) == [(0, 10 * MS), (1, 510 * MS)]


def test_without_a_rate_only_the_delay_counts(driver: Driver) -> None:
    driver.fresh(f"delay={5 * MS}")
    driver.ask("offer 100 9000")
    driver.ask("offer 100 9000")
    assert driver.released(MS * 6) == [(0, 5 * MS + 100), (1, 5 * MS + 100)]


def test_remainders_below_a_nanosecond_add_up(driver: Driver) -> None:
    # 100 bytes at 3 Gbit/s take 266 2/3 ns; three thousand of them exactly 800,000 ns.
    driver.fresh("rate=3000000000 queue=1000000000")
    for _ in range(3000):
        driver.ask("offer 0 100")
    assert driver.released(MS)[-1] == (2999, 800_000)


def test_the_queue_bound_counts_the_frame_itself(driver: Driver) -> None:
    driver.fresh(f"rate=1000000 queue={25 * MS}")
    assert [driver.ask("offer 0 1250") for _ in range(3)] == [["taken"], ["taken"], ["full"]]
    assert driver.ask(f"offer {5 * MS - 1} 1250") == ["full"]
    assert driver.ask(f"offer {5 * MS} 1250") == ["taken"]


def test_a_new_rate_times_anew_what_waits_and_what_is_half_sent(driver: Driver) -> None:
    # At 5 ms half of frame 0 (5,000 bits) is left: 0.5 ms at 10 Mbit/s; frame 1 takes 1 ms.
    driver.fresh(f"{ONE_MBIT} delay={20 * MS}")
    driver.ask("offer 0 1250")
    driver.ask("offer 0 1250")
    assert driver.ask(f"set {5 * MS} rate=10000000") == ["ok"]
    assert driver.released(100 * MS) == [(0, 25_500_000), (1, 26_500_000)]


def test_after_a_new_rate_the_next_frame_queues_behind_the_retimed_ones(driver: Driver) -> None:
    driver.fresh(ONE_MBIT)
    driver.ask("offer 0 1250")
    driver.ask("offer 0 1250")
    driver.ask(f"set {5 * MS} rate=10000000")
    driver.ask(f"offer {5 * MS} 1250")
    assert driver.released(100 * MS)[-1] == (2, 7_500_000)


def test_taking_the_rate_away_sends_what_waits_at_once(driver: Driver) -> None:
    driver.fresh(f"{ONE_MBIT} delay={20 * MS}")
    driver.ask("offer 0 1250")
    driver.ask("offer 0 1250")
    driver.ask(f"set {5 * MS} rate=0")
    assert driver.released(100 * MS) == [(0, 25 * MS), (1, 25 * MS)]


def test_a_new_delay_leaves_what_is_in_the_fibre_alone(driver: Driver) -> None:
    driver.fresh(f"{ONE_MBIT} delay={20 * MS} reorder=1")
    driver.ask("offer 0 1250")
    driver.ask("offer 0 1250")
    driver.ask(f"set {12 * MS} delay={5 * MS}")
    assert driver.released(100 * MS) == [(1, 25 * MS), (0, 30 * MS)]


def test_without_reorder_a_shorter_delay_does_not_overtake(driver: Driver) -> None:
    driver.fresh(f"{ONE_MBIT} delay={20 * MS}")
    driver.ask("offer 0 1250")
    driver.ask("offer 0 1250")
    driver.ask(f"set {12 * MS} delay={5 * MS}")
    assert driver.released(100 * MS) == [(0, 30 * MS), (1, 30 * MS)]


def test_zero_is_a_value(driver: Driver) -> None:
    driver.fresh(f"delay={20 * MS} jitter={5 * MS}")
    assert driver.ask("set 0 delay=0 jitter=0") == ["ok"]
    driver.ask("offer 7 1250")
    assert driver.released(7) == [(0, 7)]


def test_what_a_change_does_not_name_stays(driver: Driver) -> None:
    driver.fresh(f"{ONE_MBIT} delay={20 * MS}")
    driver.ask("set 0 loss=0")
    driver.ask("offer 0 1250")
    assert driver.released(100 * MS) == [(0, 30 * MS)]


def test_a_refused_change_changes_nothing(driver: Driver) -> None:
    driver.fresh(f"{ONE_MBIT} delay={20 * MS}")
    assert driver.ask(f"set 0 delay={MS} jitter={2 * MS}") == [
        "the jitter is larger than the delay"
    ]
    driver.ask("offer 0 1250")
    assert driver.released(100 * MS) == [(0, 30 * MS)]


def test_jitter_keeps_the_order_unless_asked(driver: Driver) -> None:
    driver.fresh(f"delay={20 * MS} jitter={20 * MS}")
    for _ in range(500):
        driver.ask("offer 0 100")
    assert [order for order, _ in driver.released(100 * MS)] == list(range(500))


def test_reorder_lets_frames_overtake_within_delay_and_jitter(driver: Driver) -> None:
    driver.fresh(f"delay={20 * MS} jitter={10 * MS} reorder=1")
    for _ in range(500):
        driver.ask("offer 0 100")
    released = driver.released(100 * MS)
    assert sorted(order for order, _ in released) == list(range(500))
    assert [order for order, _ in released] != list(range(500))
    times = [time for _, time in released]
    assert times == sorted(times)
    # Uniform on [10, 30] ms: mean 20, standard error 20/sqrt(12)/sqrt(500) = 0.26 ms.
    assert times[0] >= 10 * MS and times[-1] <= 30 * MS
    assert mean(times) == pytest.approx(20 * MS, abs=4 * 0.26 * MS)


def test_releases_are_counted_by_how_late_they_are(driver: Driver) -> None:
    driver.fresh()
    for now, release in ((0, 0), (0, 999), (0, 1000), (0, 3999), (0, 4000)):
        driver.ask("open 0")
        driver.ask(f"offer {now} 100")
        driver.released(release)
        late = driver.ask("counters")[0].rpartition("late=")[2].split(",")
        bucket = 0 if release < 1000 else int(math.log2(release // 1000)) + 1
        assert late.index("1") == bucket


def draws(driver: Driver, settings: str, count: int = 20_000, identity: int = 0) -> list[int]:
    driver.fresh(settings, identity)
    return [int(digit) for digit in driver.ask(f"draw {count}")[0]]


@pytest.mark.parametrize("percent", [0.1, 1.0, 5.0])
def test_loss_is_inside_the_99_percent_binomial_interval(driver: Driver, percent: float) -> None:
    lost = sum(fate & 1 for fate in draws(driver, f"loss={round(percent * 1e7)} seed=11"))
    chance = percent / 100
    half_width = 2.576 * math.sqrt(20_000 * chance * (1 - chance))
    assert abs(lost - 20_000 * chance) <= half_width


@pytest.mark.parametrize(("chance", "lost"), [(0, 0), (1_000_000_000, 1000)])
def test_no_loss_and_total_loss_are_exact(driver: Driver, chance: int, lost: int) -> None:
    assert sum(fate & 1 for fate in draws(driver, f"loss={chance}", 1000)) == lost


def bursts(lost: list[int]) -> list[int]:
    text = "".join("x" if each else " " for each in lost)
    return [len(burst) for burst in text.split()]


def test_burst_lengths_follow_the_gilbert_elliott_chain(driver: Driver) -> None:
    # Enter 1 %, leave 25 %: bursts of 4 frames in the mean, 1/26 of all frames lost.
    chain = "ge_enter=10000000 ge_leave=250000000 ge_bad=1000000000 seed=5"
    lost = [fate & 1 for fate in draws(driver, chain, 200_000)]
    assert mean(bursts(lost)) == pytest.approx(4.0, rel=0.1)
    assert sum(lost) / 200_000 == pytest.approx(1 / 26, rel=0.1)


def test_frames_in_the_good_state_are_lost_at_its_own_rate(driver: Driver) -> None:
    lost = sum(fate & 1 for fate in draws(driver, "ge_good=100000000 seed=3"))
    assert lost == pytest.approx(2000, abs=2.576 * math.sqrt(20_000 * 0.1 * 0.9))


def test_duplication_and_corruption_are_drawn_apart(driver: Driver) -> None:
    fates = draws(driver, "duplicate=100000000 corrupt=500000000 seed=9")
    both = sum(fate & 6 == 6 for fate in fates)
    assert sum(fate & 2 > 0 for fate in fates) == pytest.approx(2000, abs=110)
    assert sum(fate & 4 > 0 for fate in fates) == pytest.approx(10_000, abs=183)
    assert both == pytest.approx(1000, abs=80)


def test_the_same_seed_gives_the_same_losses(driver: Driver) -> None:
    first = draws(driver, "loss=100000000 seed=42", 1000)
    assert first == draws(driver, "loss=100000000 seed=42", 1000)
    assert first != draws(driver, "loss=100000000 seed=43", 1000)


def test_two_directions_with_one_seed_lose_different_frames(driver: Driver) -> None:
    first = draws(driver, "loss=100000000 seed=42", 1000, identity=4)
    assert first != draws(driver, "loss=100000000 seed=42", 1000, identity=5)


def test_jitter_and_duplication_leave_the_pattern_of_losses_alone(driver: Driver) -> None:
    plain = [fate & 1 for fate in draws(driver, "loss=100000000 seed=1", 1000)]
    more = draws(driver, "loss=100000000 seed=1 duplicate=500000000 delay=9 jitter=9", 1000)
    assert [fate & 1 for fate in more] == plain


def test_memory_is_rate_times_what_is_held_and_a_third(driver: Driver) -> None:
    # 1 Gbit/s x (100 + 20 + 200) ms = 40 MB, a third more for blocks that are not full.
    driver.fresh(f"rate=1000000000 delay={100 * MS} jitter={20 * MS} queue={200 * MS}")
    assert int(driver.ask("memory")[0]) == 40_000_000 * 4 // 3
