"""Arrays of any library that speaks DLPack: address, shape, type and device, without a copy."""
from __future__ import annotations

import ctypes as c
from typing import Any, NamedTuple, Optional, Tuple

from ._native import BadInputError


class _Device(c.Structure):
    _fields_ = [("type", c.c_int32), ("index", c.c_int32)]


class _DataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class _Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", _Device), ("ndim", c.c_int32), ("dtype", _DataType),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


_pointer = c.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]

# DLPack's codes and bits. numpy has no bf16: its bits in uint16 are accepted where bf16 is meant.
_DTYPES = {(2, 32): "fp32", (2, 16): "fp16", (4, 16): "bf16", (1, 16): "uint16"}
_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}  # pinned host memory and managed memory too


class Array(NamedTuple):
    """What a launch needs to know of an array. `keep` keeps the memory alive."""
    address: int
    shape: Tuple[int, ...]
    dtype: str
    device: str  # "cpu" or "cuda"
    index: int
    keep: Any


def view(array: Any, name: str = "array", apart: Optional[Tuple[int, int]] = None) -> Array:
    """Looks at `array` through DLPack. Raises BadInputError unless it is contiguous, row-major,
    and of a type that Tenon has. With `apart` = (axes, stride), rows of so many last axes are
    contiguous and `stride` elements apart."""
    if not hasattr(array, "__dlpack__"):
        raise BadInputError(f"{name} is a {type(array).__name__}; an array that supports DLPack is accepted (numpy, torch, cupy …)")
    if getattr(array, "requires_grad", False):
        array = array.detach()
    # On a GPU stream -1 asks for no synchronization: the caller's stream orders the launch.
    on_cpu = array.__dlpack_device__()[0] == 1
    capsule = array.__dlpack__() if on_cpu else array.__dlpack__(stream=-1)
    tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    key = (tensor.dtype.code, tensor.dtype.bits)
    if key not in _DTYPES or tensor.dtype.lanes != 1:
        raise BadInputError(f"{name} has an element type of DLPack code {key[0]} and {key[1]} bits; bf16, fp16, fp32 are accepted, and uint16 for bf16's bits")
    if tensor.device.type not in _DEVICES:
        raise BadInputError(f"{name} is on a device of DLPack type {tensor.device.type}; CPU and CUDA are accepted")
    if tensor.strides:
        strides = [tensor.strides[i] for i in range(tensor.ndim)]
    else:
        strides = [1] * tensor.ndim
        for i in range(tensor.ndim - 2, -1, -1):
            strides[i] = strides[i + 1] * shape[i + 1]
    expected = 1
    for place, (extent, stride) in enumerate(zip(reversed(shape), reversed(strides))):
        if apart is not None and place == apart[0]:
            expected = apart[1]
        if extent > 1 and stride != expected and 0 not in shape:
            if apart is not None and place >= apart[0]:
                raise BadInputError(f"{name} of shape {shape} has rows {stride} elements apart; this kernel was bound for {expected}")
            raise BadInputError(f"{name} of shape {shape} is not contiguous in row-major order")
        expected *= extent
    address = (tensor.data or 0) + tensor.byte_offset
    return Array(address, shape, _DTYPES[key], _DEVICES[tensor.device.type], tensor.device.index, (array, capsule))


def empty_like_kind(model: Any, shape: Tuple[int, ...]) -> Any:
    """An uninitialized array of the same library, type and device as `model`."""
    library = type(model).__module__.split(".")[0]
    if library == "torch":
        return model.new_empty(shape)
    if library in ("numpy", "cupy"):
        import importlib
        return importlib.import_module(library).empty(shape, dtype=model.dtype)
    raise BadInputError(f"an output for a {type(model).__name__} must be given as out=")


def current_stream(array: Array) -> Optional[int]:
    """The stream on which the array's library works now; None on the host."""
    if array.device == "cpu":
        return None
    library = type(array.keep[0]).__module__.split(".")[0]
    if library == "torch":
        import torch
        return torch.cuda.current_stream(array.index).cuda_stream
    if library == "cupy":
        import cupy
        return cupy.cuda.get_current_stream().ptr
    return None
