"""What an island remembers of earlier exchanges: its anchor, and what it can rely on all to have.

The **anchor** is where an island began its local steps. While all islands meet in every round, all
have the same anchor, and a change since then says everything. When cliques rotate, anchors differ:
members of a clique must then average *parameters*, or disagreement between cliques would never
shrink. Both are one thing here: islands send their parameters relative to a **reference**, the last
anchor that all of them had in common, bit by bit. That is the initial parameters at first, and the
newest anchor for as long as all meet. It follows from the schedule alone, so nobody has to ask.
Differences from a near reference are small numbers, which fixed-point sums round the less.
"""

from __future__ import annotations

import torch
from torch import Tensor

from workloads.training.optimizer import OuterOptimizer, PlainMean


class Anchor:
    """One island's anchor and reference, and its outer optimizer.

    Attributes:
        values: the anchor.
        reference: the last anchor that all islands had in common.
    """

    def __init__(self, initial: Tensor, outer: OuterOptimizer) -> None:
        self._outer = outer
        self._common = True
        self._next: Tensor | None = None
        self.values = initial.clone()
        self.reference = self.values

    def settle(self, part: slice, mean: Tensor) -> Tensor:
        """Take the outer step for one part of the vector.

        Args:
            part: with a start and a stop.
            mean: the mean over the clique of parameters minus reference, of that part.

        Returns:
            The part's next anchor.
        """
        if self._next is None:
            self._next = torch.empty_like(self.values)
        taken = self._outer.step(part, self.values[part], self.reference[part], mean)
        self._next[part] = taken
        return taken

    def end_round(self, meets_all: bool) -> None:
        """Move on to the next anchor, of which every part is settled; or stay, in an idle round.

        Args:
            meets_all: whether all islands were in one clique in this round.
        """
        if self._next is not None:
            self.values, self._next = self._next, None
        self._common = meets_all and (self._common or isinstance(self._outer, PlainMean))
        if self._common:
            self.reference = self.values
