"""Arrays of any library that speaks DLPack: address, shape, type and device, without a copy."""
from __future__ import annotations

import ctypes as c
from typing import Any, NamedTuple, Optional, Sequence, Tuple

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
_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "uint16": 2}
_NUMPY_DTYPES = {"float32": "fp32", "float16": "fp16", "uint16": "uint16", "bfloat16": "bf16"}
_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}  # pinned host memory and managed memory too


class Array(NamedTuple):
    """What a launch needs to know of an array. `keep` keeps the memory alive."""
    address: int
    shape: Tuple[int, ...]
    dtype: str
    device: str  # "cpu" or "cuda"
    index: int
    keep: Any


def view(array: Any, name: str = "array", apart: Optional[Tuple[int, int]] = None, writable: bool = False) -> Array:
    """Looks at `array` through DLPack (numpy's through its own interface, since DLPack has no way to
    say that memory is read-only). Raises BadInputError unless it is contiguous, row-major, and of
    a type that Tenon has; with `writable` also where it is read-only. With `apart` = (axes, stride),
    rows of so many last axes are contiguous and `stride` elements apart."""
    found, strides = _of_numpy(array, name, writable) if _is_numpy(array) else _of_dlpack(array, name)
    shape = found.shape
    expected = 1
    for place, (extent, stride) in enumerate(zip(reversed(shape), reversed(strides))):
        if apart is not None and place == apart[0]:
            expected = apart[1]
        if extent > 1 and stride != expected and 0 not in shape:
            if apart is not None and place >= apart[0]:
                raise BadInputError(f"{name} of shape {shape} has rows {stride} elements apart; this kernel was bound for {expected}")
            raise BadInputError(f"{name} of shape {shape} is not contiguous in row-major order")
        expected *= extent
    if found.address % _BYTES[found.dtype]:
        raise BadInputError(f"{name} is at address {found.address:#x}; a multiple of its elements' {_BYTES[found.dtype]} bytes is needed")
    return found


def _is_numpy(array: Any) -> bool:
    return hasattr(array, "__array_interface__") and type(array).__module__.split(".")[0] == "numpy"


def _of_numpy(array: Any, name: str, writable: bool) -> Tuple[Array, Sequence[float]]:
    dtype = _NUMPY_DTYPES.get(array.dtype.name) if array.dtype.isnative else None
    if dtype is None:
        raise BadInputError(f"{name} has the element type {array.dtype.str}; float32, float16 and uint16 (bf16's bits) in the machine's byte order are accepted")
    if writable and not array.flags.writeable:
        raise BadInputError(f"{name} is read-only; results are written to it")
    address = array.__array_interface__["data"][0]
    # Bytes that are no whole elements stay fractions, which equal no expected stride.
    strides = [stride // array.itemsize if stride % array.itemsize == 0 else stride / array.itemsize for stride in array.strides]
    return (Array(address, array.shape, dtype, "cpu", 0, array), strides)


def _of_dlpack(array: Any, name: str) -> Tuple[Array, Sequence[float]]:
    if not hasattr(array, "__dlpack__"):
        raise BadInputError(f"{name} is a {type(array).__name__}; an array that supports DLPack is accepted (numpy, torch, cupy …)")
    if getattr(array, "requires_grad", False):
        array = array.detach()
    # On a GPU stream -1 asks for no synchronization: the caller's stream orders the launch.
    on_cpu = array.__dlpack_device__()[0] == 1
    try:
        capsule = array.__dlpack__() if on_cpu else array.__dlpack__(stream=-1)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise BadInputError(f"{name} cannot be shared through DLPack: {error}") from error
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
    address = (tensor.data or 0) + tensor.byte_offset
    return (Array(address, shape, _DTYPES[key], _DEVICES[tensor.device.type], tensor.device.index, (array, capsule)), strides)


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
