"""Tests that measure time are measured again if the hypervisor took the processors meanwhile.

No assertion is weaker for it: a test that fails on an undisturbed machine fails at once. One that
failed three times while the hypervisor was elsewhere is skipped with that reason, since nothing was
learned of the code: a processor that is not there delays every frame, whoever wrote the shaper.
On a processor that is emulated itself (`ATOLL_TIMING_SLACK`) three attempts are what a test has.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import TypeVar

import pytest
from hypothesis import settings

# The same examples in every run: what fails for a reader fails for whoever looks into it.
# `--hypothesis-profile=default` draws others.
settings.register_profile("reproducible", derandomize=True)
settings.load_profile("reproducible")

Measured = TypeVar("Measured")

DISTURBED_STEAL_PCT = 3.0
REPETITIONS = 2
PROCESSOR_IS_EMULATED = float(os.environ.get("ATOLL_TIMING_SLACK", "1")) > 1
NOTHING_LEARNED = "the hypervisor took the processors at every attempt to measure"


class StealWatch:
    """Samples once a second which share of the processors the hypervisor gave to somebody else."""

    def __init__(self) -> None:
        self._shares: deque[tuple[float, float]] = deque(maxlen=3600)
        self._test_began_s = 0.0
        threading.Thread(target=self._sample, name="steal", daemon=True).start()

    def begin_test(self) -> None:
        self._test_began_s = time.monotonic()

    def test_was_disturbed(self) -> bool:
        return self.disturbed_since(self._test_began_s)

    def test_may_be_repeated(self) -> bool:
        """Whether time was taken from the test, or the processor under it is an emulated one."""
        return PROCESSOR_IS_EMULATED or self.test_was_disturbed()

    def disturbed_since(self, began_s: float) -> bool:
        """Whether any second since then lost more than `DISTURBED_STEAL_PCT`."""
        asked_s = time.monotonic()
        while not (self._shares and self._shares[-1][0] > asked_s):  # this second is sampled
            time.sleep(0.1)
        shares = tuple(self._shares)
        return any(pct > DISTURBED_STEAL_PCT for moment, pct in shares if moment >= began_s)

    def undisturbed(self, measure: Callable[[], Measured]) -> Measured:
        """Measure until the hypervisor leaves the machine alone, or skip if it never does."""
        for _ in range(1 + REPETITIONS):
            began_s = time.monotonic()
            measured = measure()
            if not self.disturbed_since(began_s):
                return measured
        pytest.skip(NOTHING_LEARNED)

    def _sample(self) -> None:
        # Not at the top: the controller's tests run where the rest of the testbed is not installed.
        from testbed.monitor.procfs import read_cpu

        before = read_cpu()
        while True:
            time.sleep(1.0)
            after = read_cpu()
            total = max(1, after.total - before.total)
            self._shares.append((time.monotonic(), 100 * (after.steal - before.steal) / total))
            before = after


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    timing = [item for item in items if item.get_closest_marker("timing") is not None]
    if not timing:
        return
    watch = StealWatch()
    config.pluginmanager.register(_Timing(watch))
    for item in timing:
        item.add_marker(pytest.mark.flaky(reruns=REPETITIONS, condition=watch.test_may_be_repeated))


class _Timing:
    def __init__(self, watch: StealWatch) -> None:
        self._watch = watch

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._watch.begin_test()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        last = getattr(item, "execution_count", 1) > REPETITIONS
        timing = item.get_closest_marker("timing") is not None
        if report.failed and timing and last and self._watch.test_was_disturbed():
            report.outcome = "skipped"
            path, line, _ = item.location
            report.longrepr = (path, line or 0, NOTHING_LEARNED)
        return report


@pytest.fixture(scope="session")
def steal_watch() -> StealWatch:
    """Says when the hypervisor took the processors."""
    return StealWatch()


@pytest.fixture(scope="session")
def undisturbed(steal_watch: StealWatch) -> Callable[[Callable[[], object]], object]:
    """For what a module measures once: `undisturbed(measure)`, see `StealWatch`."""
    return steal_watch.undisturbed
