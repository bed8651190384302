"""The operators tenon::layer and tenon::layer_first of PyTorch, and the layers behind their numbers."""
from __future__ import annotations

import itertools
import threading
from typing import Dict, Optional

import torch

from .. import _native
from .._library import Kernel

_numbers = itertools.count()
_lock = threading.Lock()
_kernels: Dict[int, Kernel] = {}
_first: Dict[int, "object"] = {}

_definitions = torch.library.Library("tenon", "DEF")
# A bound layer: y = layer(x), `columns` wide. Number 65535 at most.
_definitions.define("layer(Tensor x, int layer, int columns) -> Tensor")
# A layer that its module still has to bind.
_definitions.define("layer_first(Tensor x, int layer, int columns) -> Tensor")


def _launch(x: torch.Tensor, layer: int, columns: int) -> torch.Tensor:
    kernel = _kernels[layer]
    if not x.is_contiguous():
        raise ValueError("tenon::layer: x must be contiguous")
    kernel.check_input(x, columns)
    y = x.new_empty(x.shape[:-1] + (columns,))
    rows = x.numel() // x.shape[-1]
    if rows:
        stream = torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else None
        kernel.launch_one(x.data_ptr(), y.data_ptr(), rows, stream)
    return y


def _bind_and_launch(x: torch.Tensor, layer: int, columns: int) -> torch.Tensor:
    return _first[layer](x)


def _fake(x: torch.Tensor, layer: int, columns: int) -> torch.Tensor:
    return x.new_empty(x.shape[:-1] + (columns,))


for _name in ("layer", "layer_first"):
    torch.library.register_fake(f"tenon::{_name}", _fake, lib=_definitions)
for _key in ("CPU", "CUDA"):
    _definitions.impl("layer_first", _bind_and_launch, _key)

#: Why calls pass through Python on their way to the launch; "" where they do not.
native_note = ""
if _native.lib.tenon_torch_register() != 0:
    native_note = _native.last_error()
    for _key in ("CPU", "CUDA"):
        _definitions.impl("layer", _launch, _key)
elif not torch.backends.cuda.is_built():
    _definitions.impl("layer", _launch, "CUDA")

layer = torch.ops.tenon.layer.default
layer_first = torch.ops.tenon.layer_first.default


def new_number(bind_and_call) -> int:
    """A number for a module; `bind_and_call(x)` serves calls before it is bound."""
    with _lock:
        number = next(_numbers)
        _first[number] = bind_and_call
    if number >= 65536:
        raise _native.BadInputError(f"there are {number} layers in this process; 65536 are accepted")
    return number


# at::ScalarType and at::DeviceType, which the runtime compares with those of x.
_SCALAR_TYPES = {torch.float16: 5, torch.float32: 6, torch.bfloat16: 15}
_DEVICE_TYPES = {"cpu": 0, "cuda": 1}


def set_kernel(number: int, kernel: Optional[Kernel], model: Optional[torch.Tensor] = None, columns: int = 0, dependent: bool = False) -> None:
    """What calls of tenon::layer with this number launch from now on: for x like `model` in type, device and
    last extent, `columns` wide results. None: nothing any more."""
    with _lock:
        if kernel is None:
            _native.check(_native.lib.tenon_torch_set_layer(number, None, None))
            _kernels.pop(number, None)
            return
        expected = _native.TorchLayer(_SCALAR_TYPES[model.dtype], _DEVICE_TYPES[model.device.type], model.device.index or 0, int(dependent),
                                      model.shape[-1], columns)
        _native.check(_native.lib.tenon_torch_set_layer(number, kernel._handle, _native.c.byref(expected)))
        _kernels[number] = kernel


def drop(number: int) -> None:
    """The module is gone."""
    set_kernel(number, None)
    _first.pop(number, None)
