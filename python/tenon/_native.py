"""libtenon_runtime.so through ctypes: prototypes of runtime/tenon.h, and errors."""
from __future__ import annotations

import ctypes as c
import os
from pathlib import Path
from typing import List

ABI_VERSION = 1
NAME = f"libtenon_runtime.so.{ABI_VERSION}"


class TenonError(Exception):
    """A call of Tenon failed; the message is one sentence."""


class NotFoundError(TenonError, LookupError):
    """Nothing stored fits; the message says what is nearest."""


class BadInputError(TenonError, ValueError):
    """An argument is wrong; the message names it, its value and what is accepted."""


class DeviceError(TenonError, RuntimeError):
    """The device or its driver is missing, too old, or failed."""


class InternalError(TenonError, RuntimeError):
    """A bug of Tenon's."""


_ERRORS = {1: NotFoundError, 2: BadInputError, 3: DeviceError, 4: InternalError}


class BindOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("m_min", c.c_int64), ("dependent", c.c_int), ("exclusive", c.c_int),
                ("no_vendor_library", c.c_int), ("attributes", c.c_char_p), ("layouts", c.c_char_p), ("keep_weights", c.c_int),
                ("row_strides", c.c_char_p)]


class SegmentStruct(c.Structure):
    _fields_ = [("size", c.c_size_t), ("low", c.c_int64), ("high", c.c_int64), ("chunk", c.c_int64), ("plan", c.c_int64),
                ("tuned_m", c.c_int64), ("time_us", c.c_double), ("label", c.c_char_p), ("schedule", c.c_char_p)]


class TorchLayer(c.Structure):
    _fields_ = [("dtype", c.c_int32), ("device_type", c.c_int32), ("device_index", c.c_int32), ("dependent", c.c_int32),
                ("columns_in", c.c_int64), ("columns_out", c.c_int64)]


def candidates() -> List[str]:
    """Where the shared library is looked for, in order."""
    here = Path(__file__).resolve().parent
    paths = []
    if os.environ.get("TENON_LIBRARY"):
        paths.append(os.environ["TENON_LIBRARY"])
    # A wheel's, a bundle's and a build folder's.
    for folder in (here / "_lib", here.parents[1] / "lib", here.parents[1] / "build" / "runtime"):
        paths += [str(folder / NAME), str(folder / "libtenon_runtime.so")]
    paths.append(NAME)  # the loader's own search
    return paths


def _load() -> c.CDLL:
    tried = []
    for path in candidates():
        if os.sep in path and not os.path.exists(path):
            tried.append(f"{path} (not there)")
            continue
        try:
            return c.CDLL(path)
        except OSError as error:
            tried.append(str(error))
    raise ImportError("the Tenon runtime library was not found; set TENON_LIBRARY to its path. Tried: " + "; ".join(tried))


lib = _load()

_P, _PP, _I64, _S, _INT = c.c_void_p, c.POINTER(c.c_void_p), c.c_int64, c.c_char_p, c.c_int
_PROTOTYPES = {
    "tenon_abi_version": (_INT, []),
    "tenon_version": (_S, []),
    "tenon_last_error": (_S, []),
    "tenon_library_open": (_INT, [_S, _S, _PP]),
    "tenon_library_open_bytes": (_INT, [_P, c.c_size_t, _S, _S, _PP]),
    "tenon_library_close": (None, [_P]),
    "tenon_library_device": (_S, [_P]),
    "tenon_bind_with": (_INT, [_P, _S, _S, _S, c.POINTER(BindOptions), _PP, _P, _PP]),
    "tenon_kernel_close": (None, [_P]),
    "tenon_launch": (_INT, [_P, _PP, _PP, _I64, _P, _INT]),
    "tenon_launch_one": (_INT, [_P, _P, _P, _I64, _P, _INT]),
    "tenon_program_signature": (_S, [_S]),
    "tenon_kernel_reads": (_INT, [_P, _INT]),
    "tenon_kernel_m_min": (_I64, [_P]),
    "tenon_kernel_m_max": (_I64, [_P]),
    "tenon_kernel_note": (_S, [_P]),
    "tenon_kernel_segment": (_INT, [_P, _I64, c.POINTER(SegmentStruct)]),
    "tenon_torch_register": (_INT, []),
    "tenon_torch_set_layer": (_INT, [_I64, _P, c.POINTER(TorchLayer)]),
}
for _name, (_result, _arguments) in _PROTOTYPES.items():
    _function = getattr(lib, _name)
    _function.restype, _function.argtypes = _result, _arguments

if lib.tenon_abi_version() != ABI_VERSION:
    raise ImportError(f"the Tenon runtime library has ABI version {lib.tenon_abi_version()}; this package needs {ABI_VERSION}")


def last_error() -> str:
    return lib.tenon_last_error().decode(errors="replace")


def int64(value: int, name: str) -> int:
    """`value`, which ctypes would otherwise cut to 64 bits."""
    if not -2**63 <= value < 2**63:
        raise BadInputError(f"{name} is {value}; an integer of 64 bits is accepted")
    return value


def check(status: int) -> None:
    """Raises the exception of a status that is not 0."""
    if status != 0:
        raise _ERRORS.get(status, InternalError)(last_error())
