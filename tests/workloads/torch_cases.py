"""Run by every rank of a job: the cases of PyTorch's own tests of its CPU back-ends, on `atoll`.

Prints a JSON object with what went wrong for each case, or null. The cases are those of
`test/distributed/test_c10d_gloo.py` and `distributed_test.py` on broadcast, all-reduce, reduce,
all-gather and barrier, as far as they concern tensors on the CPU.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ReduceOp

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
CASES: dict[str, Any] = {}


def case(function: Any) -> Any:
    CASES[function.__name__] = function
    return function


def same(got: Tensor, want: Any) -> None:
    want = torch.as_tensor(want, dtype=got.dtype).expand_as(got)
    assert torch.equal(got, want), (got, want)


@case
def sum_of_every_type(rank: int, world: int) -> None:
    for dtype in FLOATS + INTEGERS + [torch.complex64]:
        tensor = torch.full((3, 5), rank + 1, dtype=dtype)
        dist.all_reduce(tensor)
        same(tensor, sum(range(1, world + 1)))


@case
def average_of_every_floating_point_type(rank: int, world: int) -> None:
    for dtype in FLOATS:
        tensor = torch.full((7,), 2.0 * rank, dtype=dtype)
        dist.all_reduce(tensor, op=ReduceOp.AVG)
        same(tensor, world - 1)


@case
def average_of_integers_is_refused(rank: int, world: int) -> None:
    message = failure(lambda: dist.all_reduce(torch.ones(2, dtype=torch.int64), op=ReduceOp.AVG))
    assert "the mean of int64[2]: give a floating-point type" in message, message


@case
def a_type_without_a_sum_on_one_member_is_named_on_all(rank: int, world: int) -> None:
    dtype = torch.bool if rank == 1 else torch.float32
    message = failure(lambda: dist.all_reduce(torch.ones(3, dtype=dtype)))
    assert "LON (rank 1) calls for sum of bool[3] where NYC (rank 0) calls for" in message, message
    message = failure(lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool)))
    assert "NYC (rank 0), LON (rank 1), TYO (rank 2): the sum of bool[3]: give one" in message


@case
def a_sparse_tensor_on_one_member_is_named_on_all(rank: int, world: int) -> None:
    tensor = torch.eye(3).to_sparse() if rank == 0 else torch.eye(3)
    message = failure(lambda: dist.all_reduce(tensor))
    assert "NYC (rank 0): the sum of float32[3, 3]: give a dense tensor" in message, message


@case
def a_minimum_is_not_mistaken_for_a_maximum(rank: int, world: int) -> None:
    op = ReduceOp.MIN if rank == 0 else ReduceOp.MAX
    message = failure(lambda: dist.all_reduce(torch.ones(3), op=op))
    assert "LON (rank 1) calls for maximum of float32[3] where NYC (rank 0) calls" in message


@case
def views_that_are_negated_or_conjugated(rank: int, world: int) -> None:
    view = torch.full((4,), 1 + 2j, dtype=torch.complex64).conj().imag
    dist.all_reduce(view)
    same(view, -2.0 * world)
    dist.broadcast(view, 0)
    same(view, -2.0 * world)


@case
def minimum_maximum_and_product(rank: int, world: int) -> None:
    for dtype in [torch.float32, torch.int64]:
        for op, want in [(ReduceOp.MIN, 1), (ReduceOp.MAX, world), (ReduceOp.PRODUCT, 6)]:
            tensor = torch.full((4,), rank + 1, dtype=dtype)
            dist.all_reduce(tensor, op=op)
            same(tensor, want)


@case
def bitwise_operations_are_refused_by_name(rank: int, world: int) -> None:
    for op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        try:
            dist.all_reduce(torch.ones(1, dtype=torch.int32), op=op)
        except NotImplementedError as error:
            assert "does not support ReduceOp.B" in str(error), error
        else:
            raise AssertionError(f"{op} was accepted")


@case
def several_calls_under_way_at_once(rank: int, world: int) -> None:
    tensors = [torch.full((1000,), float(rank + i)) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for i, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
        work.wait()
        assert work.is_completed()
        same(tensor, sum(r + i for r in range(world)))


@case
def a_handle_gives_a_future_with_the_result(rank: int, world: int) -> None:
    tensor = torch.ones(5)
    (result,) = dist.all_reduce(tensor, async_op=True).get_future().wait()
    same(result, world)


@case
def empty_tensors(rank: int, world: int) -> None:
    tensor = torch.empty(0)
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    parts = [torch.empty(0) for _ in range(world)]
    dist.all_gather(parts, tensor)
    assert tensor.shape == (0,)


@case
def scalars(rank: int, world: int) -> None:
    tensor = torch.tensor(float(rank))
    dist.all_reduce(tensor)
    same(tensor, sum(range(world)))


@case
def tensors_that_are_not_contiguous(rank: int, world: int) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6) * (rank + 1)
    for view in (base.clone().t(), base.clone()[:, ::2], base.clone()[1:3]):
        want = view * (sum(range(1, world + 1)) / (rank + 1))
        dist.all_reduce(view)
        assert torch.allclose(view, want, rtol=1e-6)
    view = base.clone().t()
    dist.broadcast(view, 1)
    same(view, torch.arange(24, dtype=torch.float32).reshape(4, 6).t() * 2)


@case
def what_lies_beside_a_slice_stays(rank: int, world: int) -> None:
    base = torch.full((10,), float(rank))
    dist.all_reduce(base[3:6])
    same(base[:3], float(rank))
    same(base[6:], float(rank))


@case
def broadcast_of_every_type_from_every_root(rank: int, world: int) -> None:
    for dtype in [*FLOATS, *INTEGERS, torch.bool, torch.complex64]:
        for root in range(world):
            tensor = torch.full((3, 2), (rank == root), dtype=dtype)
            dist.broadcast(tensor, root)
            same(tensor, 1)


@case
def broadcast_keeps_every_bit(rank: int, world: int) -> None:
    odd = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45, 1 / 3])
    tensor = odd.clone() if rank == 1 else torch.zeros(5)
    dist.broadcast(tensor, 1)
    assert torch.equal(tensor.view(torch.int32), odd.view(torch.int32)), tensor


@case
def all_gather_in_the_order_of_ranks(rank: int, world: int) -> None:
    for dtype in [torch.float32, torch.int64, torch.bool]:
        parts = [torch.zeros(2, 3, dtype=dtype) for _ in range(world)]
        dist.all_gather(parts, torch.full((2, 3), rank % 2, dtype=dtype))
        for r, part in enumerate(parts):
            same(part, r % 2)


@case
def all_gather_into_one_tensor(rank: int, world: int) -> None:
    out = torch.zeros(world * 2, 3)
    dist.all_gather_single(out, torch.full((2, 3), float(rank)))
    for r in range(world):
        same(out[2 * r : 2 * r + 2], float(r))


@case
def all_gather_into_tensors_of_another_type_is_refused(rank: int, world: int) -> None:
    parts = [torch.zeros(2, dtype=torch.int64) for _ in range(world)]
    assert failure(lambda: dist.all_gather(parts, torch.zeros(2))) != ""
    dist.barrier()


@case
def reduce_changes_the_root_alone(rank: int, world: int) -> None:
    for root in range(world):
        tensor = torch.full((4,), float(rank + 1))
        dist.reduce(tensor, root)
        same(tensor, sum(range(1, world + 1)) if rank == root else rank + 1)


@case
def barriers(rank: int, world: int) -> None:
    for _ in range(3):
        dist.barrier()
    dist.barrier(async_op=True).wait()


@case
def all_members_get_the_same_bits(rank: int, world: int) -> None:
    torch.manual_seed(rank)
    tensor = torch.randn(5000) * 10.0 ** torch.randint(-20, 20, (5000,))
    dist.all_reduce(tensor)
    parts = [torch.zeros(5000) for _ in range(world)]
    dist.all_gather(parts, tensor)
    for part in parts:
        assert torch.equal(part, tensor)


@case
def the_sum_is_that_of_exact_arithmetic_within_the_bound(rank: int, world: int) -> None:
    rows = [torch.randn(3000, generator=torch.Generator().manual_seed(r)) for r in range(world)]
    tensor = rows[rank].clone()
    dist.all_reduce(tensor)
    exact = sum(row.double() for row in rows)
    largest = max(row.abs().max() for row in rows)
    # a member's error is at most 2^(t + 2 - p) with 2^t <= 2 x the largest number, p = 29 for 3
    bound = world * 2 * largest * 2.0 ** (2 - 29) + exact.abs().max() * 2.0**-24
    assert (tensor.double() - exact).abs().max() <= bound


@case
def a_value_that_is_not_finite_is_named_on_all(rank: int, world: int) -> None:
    tensor = torch.ones(300)
    if rank == 1:
        tensor[270] = float("nan")
    message = failure(lambda: dist.all_reduce(tensor))
    assert "LON (rank 1): float32[300] has 1 of 300 values" in message, message
    assert "the first at index 270 (nan)" in message, message


@case
def shapes_that_differ_are_named_on_all(rank: int, world: int) -> None:
    message = failure(lambda: dist.all_reduce(torch.ones(4 if rank == 2 else 3)))
    want = "TYO (rank 2) calls for sum of float32[4] where NYC (rank 0) calls for sum of float32[3]"
    assert want in message, message


@case
def types_that_differ_are_named_on_all(rank: int, world: int) -> None:
    dtype = torch.int32 if rank == 0 else torch.float32
    message = failure(lambda: dist.all_reduce(torch.ones(3, dtype=dtype)))
    assert "LON (rank 1) calls for sum of float32[3] where NYC" in message, message


@case
def calls_that_differ_are_named_on_all(rank: int, world: int) -> None:
    call = dist.barrier if rank == 1 else (lambda: dist.all_reduce(torch.ones(3)))
    message = failure(call)
    assert "LON (rank 1) calls for barrier where NYC (rank 0)" in message, message


@case
def an_integer_sum_that_does_not_fit_is_refused(rank: int, world: int) -> None:
    message = failure(lambda: dist.all_reduce(torch.full((2,), 100, dtype=torch.int8)))
    assert "is 300 at index 0: too large for int8" in message, message
    message = failure(lambda: dist.all_reduce(torch.full((2,), 2**62)))
    assert "the sum over 3 members is exact" in message, message


@case
def after_an_error_the_next_call_is_right(rank: int, world: int) -> None:
    failure(lambda: dist.all_reduce(torch.ones(4 if rank == 2 else 100_000)))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    same(tensor, world)


@case
def calls_that_there_are_not_are_refused_by_name(rank: int, world: int) -> None:
    parts = [torch.zeros(1) for _ in range(world)]
    one = torch.zeros(1)
    for call, name in [
        (lambda: dist.all_to_all(parts, list(parts)), "alltoall"),
        (lambda: dist.reduce_scatter(one, parts), "reduce_scatter"),
        (lambda: dist.scatter(one, parts if rank == 0 else None), "scatter"),
        (lambda: dist.send(one, (rank + 1) % world), "send"),
        (lambda: dist.recv(one, (rank + 1) % world), "recv"),
    ]:
        try:
            call()
        except NotImplementedError as error:
            assert f"does not support {name}: it has all_reduce" in str(error), error
        else:
            raise AssertionError(f"{name} was accepted")


@case
def groups_of_some_ranks(rank: int, world: int) -> None:
    pair = dist.new_group([0, 2])
    tensor = torch.full((2,), float(rank + 1))
    if rank != 1:
        dist.all_reduce(tensor, group=pair)
        dist.destroy_process_group(pair)
    same(tensor, 2 if rank == 1 else 4)


@case
def a_group_of_some_ranks_calls_them_as_the_job_does(rank: int, world: int) -> None:
    pair = dist.new_group([1, 2])
    if rank:
        message = failure(lambda: dist.all_reduce(torch.ones(rank), group=pair))
        assert "TYO (rank 2) calls for sum of float32[2] where LON (rank 1)" in message, message
        dist.destroy_process_group(pair)


@case
def a_gradient_that_is_not_finite_is_an_error_of_the_backward_pass(rank: int, world: int) -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    inputs = torch.full((2, 4), float("nan") if rank == 1 else 1.0)
    message = failure(lambda: model(inputs).sum().backward())
    assert "LON (rank 1): float32[20] has 16 of 20 values that are not" in message, message


@case
def an_unchanged_ddp_model_learns_alike_on_all(rank: int, world: int) -> None:
    torch.manual_seed(rank)
    layers = [torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    start = [p.detach().clone() for p in model.parameters()]
    for step in range(3):
        torch.manual_seed(100 * rank + step)
        model(torch.randn(16, 8)).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    for before, parameter in zip(start, model.parameters(), strict=True):
        assert not torch.equal(before, parameter)
        parts = [torch.zeros_like(parameter) for _ in range(world)]
        dist.all_gather(parts, parameter.detach())
        assert all(torch.equal(part, parts[0]) for part in parts)


@case
def a_group_that_was_aborted_fails_its_calls_on_all(rank: int, world: int) -> None:
    group: Any = dist.new_group(list(range(world)))
    if rank == 0:
        group.abort()
        dist.destroy_process_group(group)
    else:
        message = failure(lambda: dist.all_reduce(torch.ones(3), group=group))
        assert "NYC (rank 0) failed: its process group was aborted" in message, message


@case
def the_group_of_all_can_be_destroyed_and_made_anew(rank: int, world: int) -> None:
    for _ in range(2):
        dist.destroy_process_group()
        dist.init_process_group("atoll")
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        same(tensor, world)


def failure(call: Any) -> str:
    """Return what an error says; every member must have one."""
    try:
        call()
    except Exception as error:
        return str(error)
    raise AssertionError("no error")


def main() -> None:
    dist.init_process_group("atoll")
    rank, world = dist.get_rank(), dist.get_world_size()
    outcomes: dict[str, str | None] = {}
    for name, function in CASES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        try:
            function(rank, world)
            outcomes[name] = None
        except Exception:
            outcomes[name] = traceback.format_exc()
    print(json.dumps(outcomes), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
