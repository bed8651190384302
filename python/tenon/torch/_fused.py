"""What the modules share: binding on first use, the plain form where nothing is stored."""
from __future__ import annotations

import threading
import warnings
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import nn

from .. import _native
from .._library import DEFAULT_MAX_M, Kernel, Library
from .._optimize import optimize
from . import _operator
from ._release import Originals, adopt_views

_layer = _operator.layer
is_compiling = torch.compiler.is_compiling
_DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
_libraries: Dict[Tuple[Optional[str], str], Library] = {}
_lock = threading.Lock()
_database: Optional[str] = None
_warned: set = set()


def set_database(path: Optional[str]) -> None:
    """The tuning database that modules bind from (None: the default one). Bound modules stay bound."""
    global _database
    _database = None if path is None else str(path)


def library_for(device: torch.device) -> Library:
    """The database opened for a device, once."""
    name = "host" if device.type == "cpu" else f"cuda:{device.index if device.index is not None else torch.cuda.current_device()}"
    with _lock:
        key = (_database, name)
        if key not in _libraries:
            _libraries[key] = Library(_database, name)
        return _libraries[key]


def forget_libraries() -> None:
    """Opens databases anew on the next bind, as after tuning."""
    with _lock:
        _libraries.clear()


def _refresh_loaded(module: "Fused", _: Any) -> None:
    module.refresh()


class Fused(nn.Module):
    """A normalization and the products that read it, as one tuned kernel where one is stored.

    Weights are bound as nn.Linear keeps them, without a copy, where the database holds plans for that layout
    (`tenon optimize --layout w=n,k`), else through a transposed copy that lives until the kernel has its own form of them.
    `release_originals()` gives their memory back.

    The original modules are its children and keep their parameters, so that state dicts interchange. The plain form
    runs while gradients are needed, and where nothing is stored for the shape: then a warning says so,
    once for each shape, or with tune="first_use" the shapes in `tune_m` are tuned. Weights that change in
    place are noticed by their version; after a change that PyTorch does not count, call `refresh()`."""

    _program = ""
    # Parameters of the program that PyTorch keeps in another layout: {"w": "n,k"}.
    _layouts: Dict[str, str] = {}

    def __init__(self, *, max_m: int = DEFAULT_MAX_M, tune: Optional[str] = None, tune_m: Tuple[int, ...] = (1, 16, 64, 256, 1024, 4096),
                 budget: str = "30s", dependent: bool = False, exclusive: bool = False):
        super().__init__()
        if tune not in (None, "first_use"):
            raise _native.BadInputError(f"tune is {tune!r}; None and 'first_use' are accepted")
        self.max_m, self.tune, self.tune_m, self.budget = max_m, tune, tune_m, budget
        self.dependent, self.exclusive = dependent, exclusive
        self._kernel: Optional[Kernel] = None
        self._state = "unbound"  # "bound", "plain"
        self._stamp: Any = None
        self._originals = Originals()
        self._bound: Dict[str, torch.Tensor] = {}  # what the kernel was bound to and still reads, as PyTorch keeps it
        self._watch: Optional[List[Tuple[Dict[str, Any], str, torch.Tensor, Optional[int]]]] = None
        self._columns = 0  # of the kernel's result
        self._post: Optional[Callable[[torch.Tensor], torch.Tensor]] = None  # from that to the module's
        reference = weakref.ref(self)
        self._number = _operator.new_number(lambda x: reference()._forward_first(x))
        self._finalizer = weakref.finalize(self, _operator.drop, self._number)
        self.register_load_state_dict_post_hook(_refresh_loaded)

    # What a subclass says of itself -----------------------------------------------------------------

    def plain(self, x: torch.Tensor) -> torch.Tensor:
        """The fused part by PyTorch's own operators."""
        raise NotImplementedError

    def _watched(self) -> Tuple[torch.Tensor, ...]:
        """The tensors that the kernel was bound to."""
        raise NotImplementedError

    def _parameters_by_name(self) -> Dict[str, torch.Tensor]:
        """The program's parameters, by its names, laid out as PyTorch keeps them."""
        raise NotImplementedError

    def _owners(self) -> Dict[str, List[nn.Module]]:
        """Whose weights, one below the other, a parameter of `_layouts` is."""
        raise NotImplementedError

    def _attributes(self) -> Dict[str, float]:
        raise NotImplementedError

    def _width(self) -> int:
        """Columns of the fused part's result."""
        raise NotImplementedError

    def _kernel_width(self) -> int:
        """Columns of the kernel's result; others than `_width` where `_post` stands between."""
        return self._width()

    # Binding --------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """"bound" to a tuned kernel, "plain" where nothing is stored, or "unbound" as yet."""
        return self._state

    @property
    def kernel(self) -> Optional[Kernel]:
        return self._kernel

    def refresh(self) -> "Fused":
        """Binds anew on the next call, to the weights as they are then."""
        self._state, self._stamp, self._watch = "unbound", None, None
        return self

    def bind(self) -> bool:
        """Binds now; False where nothing is stored for this shape. Not legal in a stream capture."""
        if self._originals:
            self.restore_originals()
        watched = self._watched()
        weight = watched[0]
        dtype = _DTYPES.get(weight.dtype)
        if any(t.dtype != weight.dtype or t.device != weight.device for t in watched) or dtype is None:
            return self._use_plain(f"its parameters are {weight.dtype} on {weight.device} and others; one of bf16, fp16, fp32 on one device is needed")
        try:
            kernel = self._bind_some(weight.device, dtype)
        except _native.NotFoundError as error:
            if self.tune != "first_use":
                return self._use_plain(str(error))
            self._tune(weight.device, dtype)
            try:
                kernel = self._bind_some(weight.device, dtype)
            except _native.NotFoundError as again:
                return self._use_plain(str(again))
        except _native.TenonError as error:
            return self._use_plain(str(error))
        self._columns = self._kernel_width()
        _operator.set_kernel(self._number, kernel, weight, self._columns, self.dependent)
        self._kernel, self._state = kernel, "bound"
        self._watch_weights()
        return True

    def _watch_weights(self) -> None:
        self._stamp = self._stamp_now()
        # What each call compares: where a tensor is registered, itself, how often it was written to.
        self._watch = [(owner._parameters, name, tensor, None if tensor.is_inference() else tensor._version)
                       for tensor in self._watched() for owner in self.modules() for name, own in owner._parameters.items() if own is tensor]

    def _bind_some(self, device: torch.device, dtype: str) -> Kernel:
        """The kernel to use, where there is a choice of programs."""
        return self._bind(device, dtype)

    def _bind(self, device: torch.device, dtype: str) -> Kernel:
        """In PyTorch's layout where that is stored, else in the program's own."""
        with torch.no_grad():
            parameters = {k: v.detach().contiguous() for k, v in self._parameters_by_name().items()}
        try:
            return self._bind_in(device, dtype, parameters, self._layouts)
        except _native.NotFoundError:
            transposed = {k: v.t().contiguous() if k in self._layouts else v for k, v in parameters.items()}
            return self._bind_in(device, dtype, transposed, {})

    def _bind_in(self, device: torch.device, dtype: str, parameters: Dict[str, torch.Tensor], layouts: Dict[str, str]) -> Kernel:
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
        kernel = library_for(device).bind(self._program, parameters, max_m=self.max_m, dtype=dtype, attributes=self._attributes(), layouts=layouts,
                                          dependent=self.dependent, exclusive=self.exclusive, stream=stream)
        self._bound = {name: parameters[name] if name in layouts else parameters[name].t() for name in self._layouts if kernel.reads(name)}
        return kernel

    # The originals ----------------------------------------------------------------------------------------

    def release_originals(self, keep: Optional[str] = "cpu") -> int:
        """Gives back the device memory of the original weights that launches do not need; returns the bytes.

        Binds first, where that has not been done. Weights that the kernel holds in a form of its own leave the device:
        keep="cpu" moves them to the host, so that state dicts stay as they were; keep=None drops them, and `state_dict()`
        is an error until one was loaded. Weights that the kernel reads from a copy become views of that copy; those it
        reads where they are stay. From then on the module serves what its kernel does and nothing else: gradients, another
        type and more than `max_m` rows are errors. A tensor that something else holds (tied weights) stays alive there."""
        if keep not in (None, "cpu"):
            raise _native.BadInputError(f"keep is {keep!r}; 'cpu' and None are accepted")
        if self._originals:
            return 0
        if self._state != "bound" or self._stamp != self._stamp_now():
            self.refresh()
            if not self.bind():
                raise _native.BadInputError("no kernel is stored for this shape; the plain form needs the original weights")
        freed = 0
        for name, owners in self._owners().items():
            if name in self._bound:
                freed += adopt_views(owners, self._bound[name])
            else:
                freed += sum(self._originals.release(owner, keep == "cpu") for owner in owners)
        self._watch_weights()
        return freed

    def restore_originals(self) -> "Fused":
        """Brings released weights back to the device. Raises BadInputError where they were dropped."""
        self._originals.restore()
        return self.refresh()

    def _plain(self, x: torch.Tensor, why: str) -> torch.Tensor:
        if self._originals:
            raise _native.BadInputError(f"{type(self).__name__}: {why}, and the plain form is not to be had: the original weights were released")
        return self.plain(x)

    def _tune(self, device: torch.device, dtype: str) -> None:
        shapes = {k: tuple(v.t().shape if k in self._layouts else v.shape) for k, v in self._parameters_by_name().items()}
        for m in self.tune_m:
            optimize(self._program, {"m": m, **self._dims(shapes)}, dtype=dtype, device=library_for(device).device, database=_database,
                     budget=self.budget, attributes=self._attributes(), dependent=self.dependent)
        forget_libraries()

    def _dims(self, shapes: Dict[str, Tuple[int, ...]]) -> Dict[str, int]:
        from .._library import signature
        dims: Dict[str, int] = {}
        for item in signature(self._program)["inputs"]:
            if item["name"] in shapes:
                dims.update(zip(item["axes"], shapes[item["name"]]))
        return dims

    def _use_plain(self, why: str) -> bool:
        self._state, self._kernel, self._stamp, self._watch = "plain", None, self._stamp_now(), None
        self._bound = {}
        _operator.set_kernel(self._number, None)
        key = (self._program, tuple(tuple(t.shape) for t in self._watched()), str(self._watched()[0].dtype))
        if key not in _warned:
            _warned.add(key)
            warnings.warn(f"{type(self).__name__} runs its plain PyTorch form: {why}", stacklevel=4)
        return False

    def _stamp_now(self) -> Tuple[Any, ...]:
        return tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in self._watched())

    # Calls ----------------------------------------------------------------------------------------------

    def fused(self, x: torch.Tensor) -> torch.Tensor:
        """The tuned kernel where one is bound or can be, else the plain form."""
        watch = self._watch
        if watch is None or torch.is_grad_enabled() or is_compiling():
            return self._fused_slowly(x)
        for parameters, name, tensor, version in watch:
            if parameters[name] is not tensor or (version is not None and tensor._version != version):
                return self._fused_slowly(x)
        try:
            y = _layer(x, self._number, self._columns)
        except (RuntimeError, ValueError):
            return self._fused_slowly(x)
        return y if self._post is None else self._post(y)

    def _fused_slowly(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and (x.requires_grad or any(t.requires_grad for t in self._watched())):
            return self._plain(x, "gradients are wanted (torch.no_grad() and torch.inference_mode() say that they are not)")
        if is_compiling():
            if self._state == "plain":
                return self.plain(x)
            if self._state != "bound":
                return _operator.layer_first(x.contiguous(), self._number, self._width())
            y = _layer(x.contiguous(), self._number, self._columns)
            return y if self._post is None else self._post(y)
        if self._state != "unbound" and self._stamp != self._stamp_now():
            self.refresh()
        return self._forward_first(x)

    def _forward_first(self, x: torch.Tensor) -> torch.Tensor:
        if self._state == "unbound":
            self.bind()
        weight = self._watched()[0]
        rows = x.numel() // max(1, x.shape[-1])
        if self._state == "plain" or x.dtype != weight.dtype or x.device != weight.device or rows > self.max_m:
            return self._plain(x, f"x is {x.dtype} on {x.device} with {rows} rows; {weight.dtype} on {weight.device} and at most {self.max_m} rows were bound")
        y = _layer(x.contiguous(), self._number, self._columns)
        return y if self._post is None else self._post(y)

    def _apply(self, function: Any, *rest: Any) -> "Fused":
        if self._originals:
            self.restore_originals()
        self.refresh()
        return super()._apply(function, *rest)

    def extra_repr(self) -> str:
        return f"program={self._program}, state={self._state}"
