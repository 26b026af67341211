"""Tensors of any type and layout as plain vectors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from workloads.collectives.fixed_point import FLOAT32, FLOAT64, Format, Integers
from workloads.collectives.frames import Bytes

FORMATS: dict[torch.dtype, Format] = {
    torch.float16: FLOAT32,
    torch.bfloat16: FLOAT32,
    torch.float32: FLOAT32,
    torch.float64: FLOAT64,
    torch.complex64: FLOAT32,
    torch.complex128: FLOAT64,
}
SUMMED_AS: dict[torch.dtype, str] = {
    torch.uint8: "int32",
    torch.int8: "int32",
    torch.int16: "int32",
    torch.int32: "int64",
    torch.int64: "int64",
}


def type_name(dtype: torch.dtype) -> str:
    """Return the name of a type without its library: "float32"."""
    return str(dtype).removeprefix("torch.")


def description(tensor: Tensor) -> str:
    """Return type and shape: "float32[3, 4]"."""
    return f"{type_name(tensor.dtype)}{list(tensor.shape)}"


def complaint(tensor: Tensor) -> str:
    """Return why a tensor is not one of plain numbers in this machine's memory, or ""."""
    if tensor.layout != torch.strided:
        return "give a dense tensor, not a sparse one"
    if tensor.device.type != "cpu":
        return f"give a tensor on the CPU, not on {tensor.device}"
    return "give a tensor that is not quantized" if tensor.is_quantized else ""


def float_vector(tensor: Tensor, form: Format) -> npt.NDArray[Any]:
    """Return a tensor's numbers, real and imaginary parts in turn, in the format's type."""
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    wide = real.detach().resolve_neg().to(getattr(torch, form.name)).contiguous().reshape(-1)
    return wide.numpy()


def tensor_of_floats(values: npt.NDArray[Any], like: Tensor) -> Tensor:
    """Return some numbers as a tensor of the type and shape of another."""
    flat = torch.from_numpy(values)
    if like.is_complex():
        return torch.view_as_complex(flat.reshape(*like.shape, 2)).to(like.dtype)
    return flat.reshape(like.shape).to(like.dtype)


def integer_vector(tensor: Tensor) -> Integers:
    """Return a tensor's integers in the type in which they are summed."""
    integer = SUMMED_AS[tensor.dtype]
    return tensor.detach().contiguous().reshape(-1).numpy().astype(integer)


def raw_bytes(tensor: Tensor) -> Bytes:
    """Return the bytes of a tensor of any type, as they lie in memory when it is contiguous."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return np.asarray(flat.view(torch.uint8).numpy())


def tensor_of_bytes(payload: Bytes, like: Tensor) -> Tensor:
    """Return some bytes as a tensor of the type and shape of another."""
    if not like.numel():
        return torch.empty_like(like)
    flat = torch.from_numpy(np.array(payload, dtype=np.uint8))
    return flat.view(like.dtype).reshape(like.shape)
