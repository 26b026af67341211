"""A back-end of `torch.distributed` by the name of `atoll`, so that ordinary scripts run on it.

    torchrun --nproc-per-node 3 -m workloads.launch script.py

runs a script that says `init_process_group("atoll")` and knows nothing else of Atoll. What the
collectives do over the network is chosen by `ATOLL_COLLECTIVE` (default `exchange`) and, for the
kinds that need it, `ATOLL_JOB`, the description of the job (`docs/collectives.md`).

Supported on CPU tensors: `all_reduce`, `reduce`, `broadcast`, `all_gather` (lists and single
tensors), `barrier`; `SUM` and `AVG` are sums of integers and give the same bits on all members and
over every kind; `MIN`, `MAX` and `PRODUCT` are computed by each member from what all hold, in the
order of ranks. All other calls raise `NotImplementedError` with what there is.

Calls run in a thread of the process group one after the other, in the order in which they were
made; a call returns a handle (`Work`) at once, and `wait` raises what went wrong.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from workloads.collectives.board import Board
from workloads.collectives.endpoint import Endpoint
from workloads.collectives.interfaces import INTERFACE_VARIABLE, choose_interface
from workloads.collectives.kinds import Choice, WholeJob, open_at
from workloads.collectives.limits import Limits
from workloads.collectives.roster import Roster
from workloads.errors import UsageError

NAME = "atoll"
OPENED = "atoll/opened"
ABORT_LIMIT_S = 10.0
SUPPORTED = "all_reduce, reduce, broadcast, all_gather, barrier"
REFUSED = (
    "allreduce_coalesced",
    "allgather_coalesced",
    "alltoall",
    "alltoall_base",
    "all_to_all_single",
    "gather",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "scatter",
    "send",
    "recv",
    "recv_anysource",
    "monitored_barrier",
)
REFUSED_AS = {"alltoall_base": "all_to_all_single", "_reduce_scatter_base": "reduce_scatter_tensor"}

Outcome = list[Tensor]
Reduction = Callable[[Tensor], Tensor]


def register() -> None:
    """Make `atoll` known to `torch.distributed`; doing it again changes nothing."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])


def _create(options: Any, _own_options: Any) -> AtollProcessGroup:
    """Open the collective of a process group, as PyTorch describes it."""
    environ, rank, size = os.environ, options.group_rank, options.group_size
    endpoint = Endpoint(
        rank,
        size,
        environ.get("MASTER_ADDR", "127.0.0.1"),
        int(environ.get("MASTER_PORT", "0")),
        agent_keeps_store=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
    )
    some_ranks = tuple(options.global_ranks_in_group)  # none for the group of all
    everybody = Roster.from_environment(dist.get_world_size() if some_ranks else size, environ)
    interface = choose_interface(environ.get(INTERFACE_VARIABLE), endpoint.address)
    limit_s = options.timeout.total_seconds()
    collective = open_at(
        Board(_own_keys(options.store, size)),
        endpoint,
        everybody.part(some_ranks) if some_ranks else everybody,
        interface,
        replace(Choice.from_environment(environ), ranks=some_ranks),
        Limits(limit_s, limit_s),
    )
    return AtollProcessGroup(options.store, rank, size, collective)


def _own_keys(store: Any, size: int) -> Any:
    """Return a part of the store that no earlier group of the same name has written to.

    A group that is destroyed and made anew has the name that it had before, and torchrun's store
    outlives it. Nobody opens a group twice before all its members have opened it once.
    """
    opened_before = (store.add(OPENED, 1) - 1) // size
    return dist.PrefixStore(f"{opened_before}/", store)  # type: ignore[attr-defined]


# PyTorch calls these methods with one form of arguments; its own class has several for each.
_ProcessGroup: Any = dist.ProcessGroup
_Work: Any = dist.Work


class AtollProcessGroup(_ProcessGroup):  # type: ignore[misc]
    """A process group whose calls go over a collective of ours."""

    def __init__(self, store: Any, rank: int, size: int, collective: WholeJob) -> None:
        super().__init__(rank, size)
        self._store = store
        self._names = {"group": "", "description": ""}
        self._collective = collective
        self._is_aborted = False
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="atoll", daemon=True)
        self._thread.start()

    @property
    def group_name(self) -> str:
        """Return the name that PyTorch gave this group."""
        return self._names["group"]

    @property
    def group_desc(self) -> str:
        """Return what PyTorch says of this group."""
        return self._names["description"]

    def _set_group_name(self, name: str) -> None:
        self._names["group"] = name

    def _set_group_desc(self, description: str) -> None:
        self._names["description"] = description

    def getBackendName(self) -> str:  # noqa: N802 (PyTorch's name)
        """Return the name by which scripts ask for this back-end."""
        return NAME

    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None) -> Any:
        """Reduce over all members, in place."""
        reduction = self._reduction(_operation(opts))
        return self._submit(lambda: [_put(tensor, reduction(tensor)) for tensor in tensors])

    def reduce(self, tensors: Sequence[Tensor], opts: Any) -> Any:
        """Reduce over all members, in place on the root and nowhere else."""
        reduction, here = self._reduction(_operation(opts)), opts.rootRank == self.rank()

        def run() -> Outcome:
            results = [reduction(tensor) for tensor in tensors]
            pairs = zip(tensors, results, strict=True)
            return [_put(tensor, result) if here else tensor for tensor, result in pairs]

        return self._submit(run)

    def broadcast(self, tensors: Sequence[Tensor], opts: Any) -> Any:
        """Overwrite tensors with the root's."""
        root = opts.rootRank
        return self._submit(
            lambda: [_put(tensor, self._collective.broadcast(tensor, root)) for tensor in tensors]
        )

    def allgather(
        self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], opts: Any = None
    ) -> Any:
        """Fill lists of tensors with every member's."""

        def run() -> Outcome:
            filled = []
            for places, mine in zip(outputs, inputs, strict=True):
                parts = self._collective.gather(mine)
                filled += [_put(place, part) for place, part in zip(places, parts, strict=True)]
            return filled

        return self._submit(run)

    def _allgather_base(self, output: Tensor, mine: Tensor, opts: Any = None) -> Any:
        """Fill one tensor with every member's, one after the other."""

        def run() -> Outcome:
            parts = self._collective.gather(mine)
            return [_put(output, torch.stack(parts).reshape(output.shape))]

        return self._submit(run)

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Any:
        """Do `_allgather_base` for several tensors."""

        def run() -> Outcome:
            gathered = [torch.stack(self._collective.gather(mine)) for mine in inputs]
            pairs = zip(outputs, gathered, strict=True)
            return [_put(place, parts.reshape(place.shape)) for place, parts in pairs]

        return self._submit(run)

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def barrier(self, opts: Any = None) -> Any:
        """Wait until every member has called."""

        def run() -> Outcome:
            self._collective.barrier()
            return []

        return self._submit(run)

    def shutdown(self) -> None:
        """End the thread after the calls that were made, and free the sockets."""
        if self._is_aborted:
            return
        self._calls.put(None)
        self._thread.join()
        self._collective.close()

    def abort(self) -> None:
        """Let all calls fail, here and on the other members, and free the sockets."""
        self._is_aborted = True
        self._collective.interrupt("its process group was aborted")
        self._calls.put(None)
        self._thread.join(ABORT_LIMIT_S)
        if not self._thread.is_alive():
            self._collective.free()

    def _reduction(self, operation: Any) -> Reduction:
        if operation == dist.ReduceOp.SUM:
            return self._collective.sum
        if operation == dist.ReduceOp.AVG:
            return self._collective.allreduce
        for one, purpose, fold in _FOLDS:
            if operation == one:
                return partial(self._folded, purpose, fold)
        name = next((name for name in _OTHERS if operation == getattr(dist.ReduceOp, name)), "")
        raise NotImplementedError(
            f"back-end {NAME} does not support ReduceOp.{name}: it has SUM, AVG, MIN, MAX, PRODUCT"
        )

    def _folded(self, purpose: str, fold: Reduction, tensor: Tensor) -> Tensor:
        return fold(torch.stack(self._collective.gather(tensor, purpose)))

    def _submit(self, run: Callable[[], Outcome]) -> Any:
        """Queue a call and return its handle."""
        call = _Call(run)
        self._calls.put(call)
        return call

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call.carry_out()


class _Call(_Work):  # type: ignore[misc]
    """A call that waits for its turn, and the handle by which the caller waits for its end.

    The handle that PyTorch makes from a future would keep an error to itself. Nor does a future on
    which Python sets an exception hold one: only Python's own `wait` would raise it, and what
    waits in C++, as `DistributedDataParallel` does, would take the exception for tensors and crash.
    One whose callback raises does hold an error.
    """

    def __init__(self, run: Callable[[], Outcome]) -> None:
        super().__init__()
        self._run = run
        self._ended = threading.Event()
        self._outcome: Outcome = []
        self._error: Exception | None = None
        self._told: Any = Future()
        self._future = self._told.then(lambda _: self._result())

    def carry_out(self) -> None:
        """Make the call, whatever comes of it."""
        try:
            with torch.no_grad():
                self._outcome = self._run()
        except Exception as error:
            self._error = error
        self._ended.set()
        self._told.set_result(None)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end of the call, and raise what went wrong.

        Raises:
            TimeoutError: the call is not done after `timeout`, where that is given and not 0.
        """
        limit_s = timeout.total_seconds() if timeout else None
        if not self._ended.wait(limit_s):
            raise TimeoutError(f"the call is not done after {limit_s} s")
        self._result()
        return True

    def is_completed(self) -> bool:
        """Return whether the call has ended, well or not."""
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Return whether the call has ended well."""
        return self._ended.is_set() and self._error is None

    def exception(self) -> Exception | None:
        """Return what went wrong, or None."""
        return self._error

    def get_future(self) -> Any:
        """Return a future with the tensors of the result."""
        return self._future

    def result(self) -> Outcome:
        """Return the tensors of the result."""
        self.wait()
        return self._result()

    def _result(self) -> Outcome:
        if self._error is not None:
            raise self._error
        return self._outcome


_FOLDS: list[tuple[Any, str, Reduction]] = [
    (dist.ReduceOp.MIN, "minimum", lambda rows: rows.amin(0)),
    (dist.ReduceOp.MAX, "maximum", lambda rows: rows.amax(0)),
    (dist.ReduceOp.PRODUCT, "product", lambda rows: rows.prod(0, dtype=rows.dtype)),
]
_OTHERS = ("BAND", "BOR", "BXOR", "PREMUL_SUM")


def _operation(opts: Any) -> Any:
    return dist.ReduceOp.SUM if opts is None else opts.reduceOp


def _put(place: Tensor, result: Tensor) -> Tensor:
    if place.shape != result.shape or place.dtype != result.dtype:
        raise UsageError(
            f"the output is {place.dtype}{list(place.shape)} where the input is "
            f"{result.dtype}{list(result.shape)}: give tensors of one type and shape"
        )
    return place.copy_(result)


def _refusal(name: str) -> Callable[..., Any]:
    shown = REFUSED_AS.get(name, name)

    def refuse(self: AtollProcessGroup, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError(f"back-end {NAME} does not support {shown}: it has {SUPPORTED}")

    refuse.__name__ = name
    refuse.__doc__ = f"Raise `NotImplementedError`: there is no {shown}."
    return refuse


for _name in REFUSED:
    setattr(AtollProcessGroup, _name, _refusal(_name))
