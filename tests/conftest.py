"""Tests that measure time are measured again if the hypervisor took the processors meanwhile.

No assertion is weaker for it: a test that fails on an undisturbed machine fails at once, and one
that fails three times on a disturbed one fails as well.
"""

import threading
import time
from collections import deque

import pytest

DISTURBED_STEAL_PCT = 3.0
REPETITIONS = 2


class StealWatch:
    """Samples once a second which share of the processors the hypervisor gave to somebody else."""

    def __init__(self) -> None:
        self._shares: deque[tuple[float, float]] = deque(maxlen=3600)
        self._test_began_s = 0.0
        threading.Thread(target=self._sample, name="steal", daemon=True).start()

    def begin_test(self) -> None:
        self._test_began_s = time.monotonic()

    def was_disturbed(self) -> bool:
        """Whether any second since the test began lost more than `DISTURBED_STEAL_PCT`."""
        time.sleep(2.0)  # until the second in which it failed has been sampled
        began_s = self._test_began_s
        return any(pct > DISTURBED_STEAL_PCT for moment, pct in self._shares if moment >= began_s)

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
    config.pluginmanager.register(_Begin(watch))
    for item in timing:
        item.add_marker(pytest.mark.flaky(reruns=REPETITIONS, condition=watch.was_disturbed))


class _Begin:
    def __init__(self, watch: StealWatch) -> None:
        self._watch = watch

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._watch.begin_test()
