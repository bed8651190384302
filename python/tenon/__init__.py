"""Tenon's runtime: kernels tuned for the place where a normalization meets a linear layer.

    library = tenon.Library("tuning.db")
    kernel = library.bind("rmsnorm_linear", {"g": gamma, "w": weight}, max_m=4096)
    y = kernel(x)

Arrays are passed through DLPack without copies: numpy on the host device, torch and cupy on
CUDA. `tenon.torch` has modules and operators for PyTorch."""
from ._library import Kernel, Library, Segment, signature
from ._native import BadInputError, DeviceError, InternalError, NotFoundError, TenonError
from ._native import lib as _lib
from ._optimize import optimize

__version__ = _lib.tenon_version().decode()
__all__ = ["BadInputError", "DeviceError", "InternalError", "Kernel", "Library", "NotFoundError", "Segment", "TenonError", "optimize", "signature"]
