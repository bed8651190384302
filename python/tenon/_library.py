"""Opening tuning databases, binding programs to weights, launching."""
from __future__ import annotations

import ctypes as c
import json
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _native
from ._arrays import Array, current_stream, empty_like_kind, view
from ._native import BadInputError, check, lib

DEFAULT_MAX_M = 8192


def signature(program: str) -> Dict[str, Any]:
    """A program's dims, attributes, inputs and outputs. `program` is a catalog name (`tenon programs`
    lists them) or a program in the text form."""
    text = lib.tenon_program_signature(program.encode())
    if text is None:
        raise BadInputError(_native.last_error())
    return json.loads(text)


class Segment(NamedTuple):
    """Which plan serves a range of rows."""
    low: int
    high: int
    chunk: int  # 0, or calls are cut into this many rows
    plan: int
    tuned_m: int
    time_us: float
    label: str
    schedule: str


class Library:
    """A tuning database opened for one device.

    `database` is a path (None: the default database) or the bytes of a
    packed one (`tenon db pack`). `device` is "auto", "host" or "cuda:N"."""

    def __init__(self, database: Union[str, bytes, None] = None, device: str = "auto"):
        self._handle = c.c_void_p()
        out = c.byref(self._handle)
        if isinstance(database, (bytes, bytearray, memoryview)):
            check(lib.tenon_library_open_bytes(bytes(database), len(database), b"in memory", device.encode(), out))
        else:
            check(lib.tenon_library_open(None if database is None else os.fsencode(database), device.encode(), out))

    def _open(self) -> c.c_void_p:
        if not self._handle:
            raise BadInputError("the library is closed")
        return self._handle

    @property
    def device(self) -> str:
        """"host" or "cuda:N"."""
        return lib.tenon_library_device(self._open()).decode()

    def bind(self, program: str, parameters: Mapping[str, Any], *, max_m: int = DEFAULT_MAX_M, min_m: int = 1,
             dtype: Optional[str] = None, attributes: Optional[Mapping[str, float]] = None,
             dims: Optional[Mapping[str, int]] = None, layouts: Optional[Mapping[str, str]] = None, dependent: bool = False,
             keep_weights: bool = False, row_strides: Optional[Mapping[str, int]] = None, exclusive: bool = False, vendor_library: bool = True, stream: Optional[int] = None) -> "Kernel":
        """Binds `program` to weights, for calls of `min_m` to `max_m` rows.

        `parameters` are arrays by the names of the program's parameters, on the library's device;
        dims and dtype follow from their shapes and types unless given. `attributes` are those of the
        program (eps). `layouts` says in which order the axes of an input lie in memory where not as the program
        has them: {"w": "n,k"} for weights that nn.Linear keeps, which then bind without a copy if the
        database holds plans for that layout (`tenon optimize --layout`). `keep_weights` admits only plans that read the weights
        where they are and keep no copy of them in another form (`tenon optimize --keep-weights`). `row_strides` says how many
        elements the rows of an activation or output are apart where they do not lie one behind the other: {"x": 640}; calls then take
        such arrays, views of wider ones (`tenon optimize --row-stride`). `exclusive` promises that
        launches of exclusive kernels never overlap on the device, which admits plans that need it to themselves. Raises NotFoundError where the database
        holds nothing that fits."""
        self._open()
        described = _laid_out(signature(program), layouts or {})
        names = [i["name"] for i in described["inputs"] if i["role"] == "parameter"]
        if sorted(parameters) != sorted(names):
            raise BadInputError(f"parameters are {', '.join(sorted(parameters)) or 'none'}; {program} has {', '.join(names)}")
        extents: Dict[str, int] = {"m": max_m, **(dims or {})} if "m" in described["dims"] else dict(dims or {})
        views: Dict[str, Array] = {}
        addresses = (c.c_void_p * len(described["inputs"]))()
        for i, item in enumerate(described["inputs"]):
            if item["role"] != "parameter":
                continue
            array = views[item["name"]] = view(parameters[item["name"]], f"parameter {item['name']}")
            self._check_device(array, item["name"])
            if len(array.shape) != len(item["axes"]):
                raise BadInputError(f"parameter {item['name']} has shape {array.shape}; {program} has {item['name']}[{', '.join(item['axes'])}]")
            for axis, extent in zip(item["axes"], array.shape):
                if extents.setdefault(axis, extent) != extent:
                    raise BadInputError(f"parameter {item['name']} has {extent} for dim {axis}, which is {extents[axis]} elsewhere")
            addresses[i] = array.address
        dtype = dtype or _common_dtype(views, described)
        for item in described["inputs"]:
            if item["name"] in views:
                _check_dtype(views[item["name"]], f"parameter {item['name']}", item, dtype)
        options = _native.BindOptions(c.sizeof(_native.BindOptions), _native.int64(min_m, "min_m"), int(dependent), int(exclusive), int(not vendor_library),
                                      ",".join(f"{k}={float(v)!r}" for k, v in attributes.items()).encode() if attributes else None,
                                      ";".join(f"{k}={v}".replace(" ", "") for k, v in layouts.items()).encode() if layouts else None,
                                      int(keep_weights),
                                      ",".join(f"{k}={v}" for k, v in row_strides.items()).encode() if row_strides else None)
        handle = c.c_void_p()
        check(lib.tenon_bind_with(self._open(), program.encode(), ",".join(f"{k}={v}" for k, v in extents.items()).encode(), dtype.encode(),
                                  c.byref(options), addresses, stream, c.byref(handle)))
        return Kernel(self, handle, described, extents, dtype, dependent, views, dict(row_strides or {}))

    def _check_device(self, array: Array, name: str) -> None:
        device = "host" if array.device == "cpu" else f"cuda:{array.index}"
        if device != self.device:
            raise BadInputError(f"{name} is on {device}; the library was opened for {self.device}")

    def close(self) -> None:
        """Closes the database; bound kernels stay valid."""
        if self._handle:
            lib.tenon_library_close(self._handle)
            self._handle = c.c_void_p()

    def __enter__(self) -> "Library":
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()


def _laid_out(described: Dict[str, Any], layouts: Mapping[str, str]) -> Dict[str, Any]:
    """A signature with the axes of inputs in the order of `layouts`."""
    inputs = {item["name"]: item for item in described["inputs"]}
    for name, layout in layouts.items():
        if name not in inputs:
            raise BadInputError(f"layouts has '{name}'; the inputs of {described['program']} are {', '.join(inputs)}")
        order = [axis.strip() for axis in layout.split(",")]
        if sorted(order) != sorted(inputs[name]["axes"]):
            raise BadInputError(f"layout is '{name}={layout}'; accepted: the axes {','.join(inputs[name]['axes'])} in any order")
        inputs[name]["axes"] = order
    return described


def _common_dtype(views: Mapping[str, Array], described: Mapping[str, Any]) -> str:
    types = {views[i["name"]].dtype for i in described["inputs"] if i["name"] in views and i["dtype"] == "T"}
    types = {"bf16" if t == "uint16" else t for t in types}
    if len(types) != 1:
        raise BadInputError(f"parameters have the types {', '.join(sorted(types)) or 'none'}; they must be of one type, or dtype= be given")
    return types.pop()


def _check_dtype(array: Array, name: str, item: Mapping[str, Any], dtype: str) -> None:
    expected = dtype if item["dtype"] == "T" else item["dtype"]
    if array.dtype != expected and not (expected == "bf16" and array.dtype == "uint16"):
        raise BadInputError(f"{name} is {array.dtype}; {expected} is needed, the kernel's type")


class Kernel:
    """A program bound to weights. Call it, or `launch` it with addresses."""

    def __init__(self, library: Library, handle: c.c_void_p, described: Dict[str, Any], extents: Dict[str, int], dtype: str,
                 dependent: bool, views: Dict[str, Array], row_strides: Dict[str, int]):
        self._row_strides = row_strides
        self._handle, self._described, self._extents, self.dtype = handle, described, extents, dtype
        self._dependent = int(dependent)
        self._activations = [i for i in described["inputs"] if i["role"] == "activation"]
        self._one = len(described["outputs"]) == 1 and len(self._activations) == 1 and described["inputs"][0]["role"] == "activation"
        self._device = library.device
        # What launches read stays alive; the rest may go.
        self._kept = [views[i["name"]].keep for n, i in enumerate(described["inputs"])
                      if i["name"] in views and lib.tenon_kernel_reads(handle, n)]

    def _open(self) -> c.c_void_p:
        if not self._handle:
            raise BadInputError("the kernel is closed")
        return self._handle

    @property
    def min_m(self) -> int:
        return lib.tenon_kernel_m_min(self._open())

    @property
    def max_m(self) -> int:
        return lib.tenon_kernel_m_max(self._open())

    @property
    def note(self) -> str:
        """What there is to say of the choice, as "stale: …"; "" when nothing."""
        return lib.tenon_kernel_note(self._open()).decode()

    def reads(self, parameter: str) -> bool:
        """Do launches read this parameter? Where not, its memory may be freed."""
        names = [i["name"] for i in self._described["inputs"]]
        if not isinstance(parameter, str) or parameter not in names:
            raise BadInputError(f"parameter {parameter!r:.40} is not one of {', '.join(names)}")
        return bool(lib.tenon_kernel_reads(self._open(), names.index(parameter)))

    def segment(self, m: int) -> Segment:
        """What serves `m` rows."""
        out = _native.SegmentStruct(c.sizeof(_native.SegmentStruct))
        check(lib.tenon_kernel_segment(self._open(), _native.int64(m, "m"), c.byref(out)))
        return Segment(out.low, out.high, out.chunk, out.plan, out.tuned_m, out.time_us, out.label.decode(), out.schedule.decode())

    def launch(self, inputs: Sequence[int], outputs: Sequence[int], m: int, stream: Optional[int] = None) -> None:
        """One call over addresses: inputs in signature order (0 for parameters), outputs."""
        for given_here, name in ((inputs, "inputs"), (outputs, "outputs")):
            if len(given_here) != len(self._described[name]):
                raise BadInputError(f"{len(given_here)} {name} were given; {self._described['program']} has {len(self._described[name])}")
        given = (c.c_void_p * len(inputs))(*inputs)
        made = (c.c_void_p * len(outputs))(*outputs)
        check(lib.tenon_launch(self._open(), given, made, _native.int64(m, "m"), stream, self._dependent))

    def launch_one(self, x: int, y: int, m: int, stream: Optional[int] = None) -> None:
        """`launch` for programs of one activation, their first input, and one output."""
        status = lib.tenon_launch_one(self._handle, x, y, _native.int64(m, "m"), stream, self._dependent)
        if status:
            check(status)

    def check_input(self, x: Any, columns: int) -> None:
        """Raises BadInputError unless x, an array, is the one activation and `columns` the result's width."""
        self._check(view(x, "x"), self._activations[0])
        if self._tail(self._described["outputs"][0]) != (columns,):
            raise BadInputError(f"columns is {columns}; this kernel gives {self._tail(self._described['outputs'][0])[0]}")

    def __call__(self, *activations: Any, out: Any = None, stream: Optional[int] = None) -> Any:
        """The outputs (one, or a tuple) for activations in signature order.

        Arrays are numpy's on the host, torch's or cupy's on CUDA, or any that speak DLPack, in
        which case `out` is needed. Leading dimensions count as rows. `out` is an array, or one for each
        output. On CUDA the call is asynchronous, on `stream` or else on the current stream of the
        array's library."""
        if len(activations) != len(self._activations):
            raise BadInputError(f"{len(activations)} activations were given; {self._described['program']} has "
                                + ", ".join(a["name"] for a in self._activations))
        views, rows, lead = [], None, ()
        for item, activation in zip(self._activations, activations):
            array = view(activation, item["name"], self._apart(item))
            self._check(array, item)
            tail = len(item["axes"]) - 1
            lead = array.shape[:len(array.shape) - tail]
            count = 1
            for extent in lead:
                count *= extent
            if rows is not None and rows != count:
                raise BadInputError(f"{item['name']} has {count} rows and another activation {rows}")
            rows = count
            views.append(array)
        results = self._results(activations[0], lead, out)
        made = [view(r, "out", self._apart(o), writable=True) for r, o in zip(results, self._described["outputs"])]
        for item, array in zip(self._described["outputs"], made):
            self._check(array, item)
            if array.shape != lead + self._tail(item):
                raise BadInputError(f"out has shape {array.shape}; {lead + self._tail(item)} is needed")
        given = iter(views)
        inputs = [next(given).address if i["role"] == "activation" else 0 for i in self._described["inputs"]]
        if stream is None:
            stream = current_stream(views[0])
        if rows:
            self.launch(inputs, [a.address for a in made], rows, stream)
        return results[0] if len(results) == 1 else tuple(results)

    def _apart(self, item: Mapping[str, Any]) -> Optional[Tuple[int, int]]:
        """How many last axes a row of the tensor has, and how far apart rows are; None where they are not."""
        stride = self._row_strides.get(item["name"])
        return None if stride is None else (len(item["axes"]) - 1, stride)

    def _tail(self, item: Mapping[str, Any]) -> Tuple[int, ...]:
        return tuple(self._extents[a] for a in item["axes"][1:])

    def _check(self, array: Array, item: Mapping[str, Any]) -> None:
        device = "host" if array.device == "cpu" else f"cuda:{array.index}"
        if device != self._device:
            raise BadInputError(f"{item['name']} is on {device}; this kernel was bound on {self._device}")
        _check_dtype(array, item["name"], item, self.dtype)
        tail = self._tail(item)
        if len(array.shape) < len(tail) + 1 or array.shape[len(array.shape) - len(tail):] != tail:
            raise BadInputError(f"{item['name']} has shape {array.shape}; [rows, {', '.join(map(str, tail))}] is needed")

    def _results(self, model: Any, lead: Tuple[int, ...], out: Any) -> Sequence[Any]:
        outputs = self._described["outputs"]
        if out is None:
            return [self._result(model, lead, o) for o in outputs]
        results = list(out) if isinstance(out, (list, tuple)) else [out]
        if len(results) != len(outputs):
            raise BadInputError(f"{len(results)} outputs were given; {self._described['program']} has {len(outputs)}")
        return results

    def _result(self, model: Any, lead: Tuple[int, ...], item: Mapping[str, Any]) -> Any:
        tail = self._tail(item)
        apart = self._apart(item)
        if apart is None:
            return empty_like_kind(model, lead + tail)
        if len(tail) != 1:
            raise BadInputError(f"{item['name']} has rows {apart[1]} elements apart; it must be given as out=")
        return empty_like_kind(model, lead + (apart[1],))[..., :tail[0]]

    def close(self) -> None:
        """Frees the bound weights; no launch may be in flight."""
        if self._handle:
            lib.tenon_kernel_close(self._handle)
            self._handle = c.c_void_p()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()
