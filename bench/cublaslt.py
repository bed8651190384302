"""cuBLASLt's bare product through ctypes: every heuristic of the library, so that the peer is its best."""
import ctypes as c
import ctypes.util
import glob
import os
import site

CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF = 0, 2, 14
COMPUTE_32F = 68
OP_T = 1
DESC_TRANSA = 3
PREF_MAX_WORKSPACE = 1


class _Result(c.Structure):
    _fields_ = [("algo", c.c_uint64 * 8), ("workspace", c.c_size_t), ("state", c.c_int),
                ("waves", c.c_float), ("reserved", c.c_int * 4)]


def _load():
    names = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"]
    for root in site.getsitepackages() + ["/usr/local/cuda/lib64"]:
        names += sorted(glob.glob(os.path.join(root, "**", "libcublasLt.so.1*"), recursive=True))
    for name in names:
        try:
            return c.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("cuBLASLt was not found")


class Product:
    """y[m, n] = x[m, k] · w[n, k]ᵀ for 16-bit tensors; `algorithms` lists the heuristics that run."""

    def __init__(self, m, k, n, bf16=True, workspace_bytes=64 << 20, heuristics=32):
        import torch
        self.lib = _load()
        self.handle = c.c_void_p()
        self._check(self.lib.cublasLtCreate(c.byref(self.handle)))
        self.desc = c.c_void_p()
        self._check(self.lib.cublasLtMatmulDescCreate(c.byref(self.desc), COMPUTE_32F, CUDA_R_32F))
        op = c.c_int(OP_T)
        self._check(self.lib.cublasLtMatmulDescSetAttribute(self.desc, DESC_TRANSA, c.byref(op), c.sizeof(op)))
        kind = CUDA_R_16BF if bf16 else CUDA_R_16F

        def layout(rows, cols, ld):
            out = c.c_void_p()
            self._check(self.lib.cublasLtMatrixLayoutCreate(c.byref(out), kind, c.c_uint64(rows), c.c_uint64(cols), c.c_int64(ld)))
            return out

        self.a, self.b, self.y = layout(k, n, k), layout(k, m, k), layout(n, m, n)
        preference = c.c_void_p()
        self._check(self.lib.cublasLtMatmulPreferenceCreate(c.byref(preference)))
        size = c.c_size_t(workspace_bytes)
        self._check(self.lib.cublasLtMatmulPreferenceSetAttribute(preference, PREF_MAX_WORKSPACE, c.byref(size), c.sizeof(size)))
        self.workspace = torch.empty(workspace_bytes, dtype=torch.uint8, device="cuda")
        results = (_Result * heuristics)()
        found = c.c_int()
        self._check(self.lib.cublasLtMatmulAlgoGetHeuristic(self.handle, self.desc, self.a, self.b, self.y, self.y, preference,
                                                            heuristics, results, c.byref(found)))
        self.algorithms = [results[i] for i in range(found.value)]
        self.one, self.zero = c.c_float(1), c.c_float(0)

    @staticmethod
    def _check(status):
        if status != 0:
            raise RuntimeError(f"cuBLASLt returned status {status}")

    def run(self, algorithm, x, w, y):
        import torch
        stream = c.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._check(self.lib.cublasLtMatmul(
            self.handle, self.desc, c.byref(self.one), c.c_void_p(w.data_ptr()), self.a, c.c_void_p(x.data_ptr()), self.b,
            c.byref(self.zero), c.c_void_p(y.data_ptr()), self.y, c.c_void_p(y.data_ptr()), self.y,
            c.byref(algorithm.algo), c.c_void_p(self.workspace.data_ptr()), c.c_size_t(self.workspace.numel()), stream))
