"""What every collective offers, whatever it sends over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class Collective(Protocol):
    """A way for the members of one clique to compute the mean of their tensors."""

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks of the clique in the job, in the order in which they take part."""

    def allreduce(self, tensor: Tensor, name: str = "") -> Tensor:
        """Return the mean of all members' tensors in a new tensor; the argument stays as it was.

        Every member calls with a tensor of the same shape and type, and every member receives
        bit-identical values.

        Args:
            tensor: the numbers.
            name: what errors call it.

        Raises:
            CollectiveError: a peer was lost, or did not answer within the time limit.
        """

    def counters(self) -> dict[str, int]:
        """Return what was counted since the start, by name."""

    def close(self) -> None:
        """Free the sockets; for a collective of the whole job, once all are done."""
