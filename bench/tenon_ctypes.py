"""Tenon's runtime through its C API, for the benchmark (runtime/tenon.h)."""
import ctypes as c


class Options(c.Structure):  # tenon_bind_options
    _fields_ = [("size", c.c_size_t), ("m_min", c.c_int64), ("dependent", c.c_int), ("exclusive", c.c_int), ("no_vendor_library", c.c_int),
                ("attributes", c.c_char_p)]


class Library:
    def __init__(self, shared_object, database, device="cuda:0"):
        self.lib = c.CDLL(shared_object)
        self.lib.tenon_last_error.restype = c.c_char_p
        for name in ("tenon_kernel_label", "tenon_kernel_schedule"):
            getattr(self.lib, name).restype = c.c_char_p
        self.lib.tenon_kernel_stored_time_us.restype = c.c_double
        self.lib.tenon_kernel_plan.restype = c.c_int64
        self.handle = c.c_void_p()
        self._check(self.lib.tenon_library_open(database.encode(), device.encode(), c.byref(self.handle)))

    def _check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.tenon_last_error().decode())

    def bind(self, program, dims, dtype, parameters, dependent, stream):
        """`parameters`: device addresses in signature order, 0 for activations."""
        kernel = c.c_void_p()
        text = ",".join(f"{k}={v}" for k, v in dims.items())
        inputs = (c.c_void_p * len(parameters))(*parameters)
        # One stream, one m: plans that need the GPU to themselves may be used, and no other m is served.
        options = Options(c.sizeof(Options), dims["m"], int(dependent), 1, 0, None)
        self._check(self.lib.tenon_bind_with(self.handle, program.encode(), text.encode(), dtype.encode(), c.byref(options), inputs,
                                             c.c_void_p(stream), c.byref(kernel)))
        return Kernel(self, kernel, parameters)


class Kernel:
    def __init__(self, library, handle, parameters):
        self.library, self.handle, self.parameters = library, handle, parameters

    def launch(self, x, y, m, stream, dependent):
        inputs = (c.c_void_p * len(self.parameters))(x, *self.parameters[1:])
        outputs = (c.c_void_p * 1)(y)
        self.library._check(self.library.lib.tenon_launch(self.handle, inputs, outputs, c.c_int64(m), c.c_void_p(stream), int(dependent)))

    def describe(self):
        lib = self.library.lib
        return lib.tenon_kernel_label(self.handle).decode(), lib.tenon_kernel_schedule(self.handle).decode()

    def close(self):
        self.library.lib.tenon_kernel_close(self.handle)
