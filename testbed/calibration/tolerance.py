"""How far off a link may be, and why so far and no farther.

The tolerances are what one busy machine lets pass, not what links are capable of: on an idle one
`linkd` keeps a median delay to 0.1 ms and a rate to 0.1 %. A direction that is off is measured up
to twice more before it counts, because a pause of the machine does not come three times in the same
place, while a wrong link stays wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tolerance:
    """The largest error of each figure that still counts as what was asked for.

    Attributes:
        rate_pct: either way, of the asked rate.
        median_delay_ms: either way; jitter is added where it is asked for, since without
            reordering it pushes frames back.
        p99_delay_ms: later only, over the asked delay and jitter.
        loss_doubt: the chance that a right link is called wrong for its loss, over all directions
            together. Where no loss is asked for, none is allowed.
    """

    rate_pct: float
    median_delay_ms: float
    p99_delay_ms: float
    loss_doubt: float

    def with_grain(self, release_grain_us: int) -> Tolerance:
        """Return what is tolerated of links that let frames within a grain leave together.

        A frame then leaves up to half a grain too late or too early; where no delay is asked for
        it cannot be early, so that the median itself is late by up to that.
        """
        half_ms = release_grain_us / 2000
        return replace(
            self,
            median_delay_ms=self.median_delay_ms + half_ms,
            p99_delay_ms=self.p99_delay_ms + half_ms,
        )


QUICK_TOLERANCE = Tolerance(rate_pct=2.0, median_delay_ms=0.5, p99_delay_ms=5.0, loss_doubt=0.001)
THOROUGH_TOLERANCE = Tolerance(
    rate_pct=1.0, median_delay_ms=0.2, p99_delay_ms=3.0, loss_doubt=0.001
)
