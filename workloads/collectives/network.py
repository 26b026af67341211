"""The collectives of a clique over a `Transport`, whichever kind it is.

All of them are one call each on every member, in the same order. What members ask for is compared;
what does not fit is an error on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from workloads.collectives import codec
from workloads.collectives.agreement import Statement
from workloads.collectives.clique import Clique
from workloads.collectives.fixed_point import (
    FLOAT32,
    FLOAT32_WIDE,
    NOT_FINITE,
    Codes,
    Floats,
    Format,
    Integers,
    next_prediction,
)
from workloads.collectives.mesh import PeerLost
from workloads.collectives.tensors import (
    FORMATS,
    SUMMED_AS,
    complaint,
    description,
    float_vector,
    integer_vector,
    raw_bytes,
    tensor_of_bytes,
    tensor_of_floats,
    type_name,
)
from workloads.collectives.transport import FloatSum, FloatVector, Transport
from workloads.errors import CollectiveError, UsageError

SUMMED_TYPES = ", ".join(type_name(dtype) for dtype in (*FORMATS, *SUMMED_AS))
Result = TypeVar("Result")
Explain = Callable[[str], str]


class NetworkCollective:
    """Mean, sum, gather and broadcast over one clique.

    Args:
        clique: the members.
        transport: the kind of collective.
        explain: makes of a symptom, after a peer was lost, the line that says who.
        wide: sum `float32` in 64 bits instead of 32: twice the bytes, an error 2^32 times smaller.
    """

    def __init__(
        self, clique: Clique, transport: Transport, explain: Explain, wide: bool = False
    ) -> None:
        self._clique = clique
        self._transport = transport
        self._explain = explain
        self._wide = wide
        self._predictions: dict[str, Codes] = {}
        self._failure: CollectiveError | None = None

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks of the clique, in ascending order."""
        return self._clique.ranks

    def allreduce(self, tensor: Tensor, name: str = "") -> Tensor:
        """Return the mean of all members' tensors in a new tensor; the argument stays as it was.

        Args:
            tensor: of any floating-point or complex type, of the same shape and type on all.
            name: what errors call it, the same on all. Sums of one name and shape predict one
                another's scales.

        Raises:
            CollectiveError: a peer was lost, members disagree, a value is not finite, or the type
                is none of those.
        """
        self._require("mean", tensor, FORMATS, "give a floating-point type")
        return self._sum_floats("mean", tensor, name, len(self._clique))

    def sum(self, tensor: Tensor, name: str = "") -> Tensor:
        """Return the sum of all members' tensors in a new tensor: of integers, exactly.

        Raises:
            CollectiveError: as `allreduce`; or the type has no sum, or the sum of integers is too
                large for it.
        """
        self._require("sum", tensor, {**FORMATS, **SUMMED_AS}, f"give one of {SUMMED_TYPES}")
        if tensor.dtype in FORMATS:
            return self._sum_floats("sum", tensor, name, 1)
        return self._sum_integers(tensor, name)

    def gather(self, tensor: Tensor, purpose: str = "gather") -> list[Tensor]:
        """Return new tensors with what every member holds, bit by bit, in the order of members.

        Args:
            tensor: of the same shape and type on all.
            purpose: what errors call this, the same on all.
        """
        self._require(purpose, tensor)
        statement = Statement(f"{purpose} of {description(tensor)}")
        payload = raw_bytes(tensor)
        parts = self._guarded(lambda: self._transport.gather(payload, statement))
        return [tensor_of_bytes(part, tensor) for part in parts]

    def broadcast(self, tensor: Tensor, root: int) -> Tensor:
        """Return a new tensor with what the member at place `root` holds, bit by bit."""
        self._require("broadcast", tensor)
        statement = Statement(f"broadcast from {self._name(root)} of {description(tensor)}")
        payload = raw_bytes(tensor)
        received = self._guarded(lambda: self._transport.broadcast(payload, root, statement))
        return tensor_of_bytes(received, tensor)

    def barrier(self) -> None:
        """Return once every member has called."""
        nothing = np.empty(0, dtype=np.int32)
        self._guarded(lambda: self._transport.sum_integers(nothing, Statement("barrier")))

    def counters(self) -> dict[str, int]:
        """Return what the transport has counted, by name."""
        return self._transport.counters()

    def close(self) -> None:
        """Free the sockets."""
        self._transport.close()

    def _require(
        self,
        operation: str,
        tensor: Tensor,
        types: Mapping[torch.dtype, object] | None = None,
        right: str = "",
    ) -> None:
        """Refuse a tensor for which there is no such operation."""
        wrong = complaint(tensor)
        if not wrong and types is not None and tensor.dtype not in types:
            wrong = right
        if wrong:
            self._refuse(f"{operation} of {description(tensor)}", wrong)

    def _refuse(self, call: str, why: str) -> NoReturn:
        """Let all members know that this one cannot make its call, or they would wait for it."""
        nothing = np.empty(0, dtype=np.int32)
        statement = Statement(call, f"the {call}: {why}")
        self._guarded(lambda: self._transport.sum_integers(nothing, statement))
        raise UsageError(statement.fault)  # of a clique of one, where nobody compares

    def _sum_floats(self, operation: str, tensor: Tensor, name: str, divisor: int) -> Tensor:
        form = self._format(tensor)
        values = float_vector(tensor, form)
        codes = codec.block_codes(values, form)
        label = f" ({name})" if name else ""
        call = f"{operation} of {description(tensor)}{' in int64' if self._wide else ''}{label}"
        fault = _not_finite(values, name or description(tensor)) if _any_bad(codes) else ""
        vector = FloatVector(values, codes, self._predictions.get(call), form)
        total = self._guarded(lambda: self._transport.sum_floats(vector, Statement(call, fault)))
        return tensor_of_floats(self._restored(call, total, form, divisor), tensor)

    def _restored(self, call: str, total: FloatSum, form: Format, divisor: int) -> Floats:
        known = self._predictions.get(call)
        self._predictions[call] = next_prediction(known, total.needed, form)
        return codec.restore(total.sums, total.codes, len(self._clique), form, divisor)

    def _sum_integers(self, tensor: Tensor, name: str) -> Tensor:
        values = integer_vector(tensor)
        label = name or description(tensor)
        statement = Statement(
            f"sum of {description(tensor)}", _too_large(values, len(self._clique), label)
        )
        total = self._guarded(lambda: self._transport.sum_integers(values, statement))
        _require_room(total, tensor.dtype, label)
        return torch.from_numpy(total).reshape(tensor.shape).to(tensor.dtype)

    def _format(self, tensor: Tensor) -> Format:
        form = FORMATS[tensor.dtype]
        return FLOAT32_WIDE if self._wide and form is FLOAT32 else form

    def _guarded(self, call: Callable[[], Result]) -> Result:
        """Make a call; once a peer was lost every later call fails with the same words."""
        if self._failure is not None:
            raise self._failure
        try:
            return call()
        except PeerLost as lost:
            self._failure = CollectiveError(self._explain(str(lost)))
            raise self._failure from lost

    def _name(self, place: int) -> str:
        return self._clique.roster.name(self._clique.ranks[place])


def _any_bad(codes: Codes) -> bool:
    return bool((codes == NOT_FINITE).any())


def _not_finite(values: Floats, name: str) -> str:
    bad = np.flatnonzero(~np.isfinite(values))
    return (
        f"{name} has {len(bad)} of {len(values)} values that are not finite, "
        f"the first at index {bad[0]} ({values[bad[0]]})"
    )


def _too_large(values: Integers, members: int, name: str) -> str:
    """Return what is wrong with integers whose sum over all members may not fit, or ""."""
    limit = int(np.iinfo(values.dtype).max) // members
    bad = np.flatnonzero((values > limit) | (values < -limit))
    if not len(bad):
        return ""
    return (
        f"{name} has {values[bad[0]]} at index {bad[0]}: the sum over {members} members is exact "
        f"from -{limit} to {limit}"
    )


def _require_room(total: Integers, dtype: torch.dtype, name: str) -> None:
    limits = torch.iinfo(dtype)
    bad = np.flatnonzero((total > limits.max) | (total < limits.min))
    if len(bad):
        raise CollectiveError(
            f"the sum of {name} is {total[bad[0]]} at index {bad[0]}: too large for "
            f"{type_name(dtype)}"
        )
