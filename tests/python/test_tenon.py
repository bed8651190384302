#!/usr/bin/env python3
"""The Python package on the host device with numpy: binding, every m, outputs, errors. The database is made by
`tenon optimize` (tests/python/CMakeLists.txt), tuned at m = 1 and 16; what is right is computed here."""
import os
import sys
import tempfile
import threading
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed for", sys.executable)
    sys.exit(77)

import tenon

K, N = 48, 40
DATABASE = os.environ["TENON_TEST_DB"]


def right(x, g, w, eps=1e-6):
    x = x.astype(np.float64)
    return (x / np.sqrt((x * x).mean(1, keepdims=True) + eps) * g) @ w.astype(np.float64)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(1)
        cls.draw = lambda self, *shape: rng.normal(size=shape).astype(np.float32)
        cls.g, cls.w = cls.draw(cls, K), cls.draw(cls, K, N)
        cls.library = tenon.Library(DATABASE, device="host")
        cls.kernel = cls.library.bind("rmsnorm_linear", {"g": cls.g, "w": cls.w}, max_m=100)

    def check(self, y, x, g=None, w=None):
        want = right(x, self.g if g is None else g, self.w if w is None else w)
        error = np.linalg.norm(y - want, axis=1) / np.linalg.norm(want, axis=1)
        self.assertLessEqual(error.max(), 1e-5)

    def test_every_m(self):
        for m in list(range(1, 101)) + [3, 100, 1, 64]:
            x = self.draw(m, K)
            self.check(self.kernel(x), x)

    def test_segments_have_no_gap(self):
        m = 1
        while m <= 100:
            segment = self.kernel.segment(m)
            self.assertEqual(segment.low, m)
            m = segment.high + 1
        self.assertEqual((self.kernel.min_m, self.kernel.max_m, m), (1, 100, 101))

    def test_output_is_written_in_place(self):
        x, out = self.draw(7, K), np.full((7, N), np.nan, np.float32)
        self.assertIs(self.kernel(x, out=out), out)
        self.check(out, x)

    def test_leading_dimensions_are_rows(self):
        x = self.draw(2, 3, K)
        y = self.kernel(x)
        self.assertEqual(y.shape, (2, 3, N))
        self.check(y.reshape(6, N), x.reshape(6, K))

    def test_no_rows(self):
        self.assertEqual(self.kernel(np.empty((0, K), np.float32)).shape, (0, N))

    def test_parameters_may_go_where_launches_do_not_read_them(self):
        g, w = self.g.copy(), self.w.copy()
        kernel = self.library.bind("rmsnorm_linear", {"g": g, "w": w}, max_m=16)
        for name, array in (("g", g), ("w", w)):
            if not kernel.reads(name):
                array[:] = np.nan
        del g, w
        x = self.draw(5, K)
        self.check(kernel(x), x)

    def test_weights_in_another_layout(self):
        w = self.draw(36, K)  # [n, k], as nn.Linear keeps it
        bind = lambda w, **more: self.library.bind("rmsnorm_linear", {"g": self.g, "w": w}, max_m=20, **more)
        kernel = bind(w, layouts={"w": "n,k"})
        for m in (1, 4, 20):
            x = self.draw(m, K)
            self.check(kernel(x), x, w=w.T)
        # The one layout is not taken for the other.
        self.says(tenon.NotFoundError, "n is 40", lambda: bind(w.T.copy()))
        self.says(tenon.NotFoundError, "w=n,k", lambda: bind(self.w.T.copy(), layouts={"w": "n,k"}))
        self.says(tenon.BadInputError, "axes k,n in any order", lambda: bind(w, layouts={"w": "n,q"}))
        self.says(tenon.BadInputError, "are x, g, w", lambda: bind(w.T.copy(), layouts={"v": "n,k"}))

    def test_weights_that_stay(self):
        kernel = self.library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}, max_m=20, keep_weights=True)
        self.assertTrue(kernel.reads("w"))
        for m in (1, 16, 20):
            x = self.draw(m, K)
            self.check(kernel(x), x)

    def test_rows_that_are_apart(self):
        kernel = self.library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}, max_m=20, row_strides={"x": 56, "y": 44})
        wide = np.full((20, 56), np.nan, np.float32)
        wide[:, :K] = self.draw(20, K)
        for m in (1, 4, 20):
            out = np.full((m, 44), -7, np.float32)
            kernel(wide[:m, :K], out=out[:, :N])
            self.check(out[:, :N], wide[:m, :K])
            self.assertTrue((out[:, N:] == -7).all())
        y = kernel(wide[:, :K].reshape(4, 5, K))  # a view
        self.assertEqual(y.strides[-2], 44 * 4)
        self.check(y.reshape(20, N), wide[:, :K])
        self.says(tenon.BadInputError, "48 elements apart", lambda: kernel(wide[:, :K].copy()))
        self.says(tenon.BadInputError, "not contiguous", lambda: self.kernel(wide[:16, :K]))
        self.says(tenon.BadInputError, "row stride is .w.; accepted: x, y", lambda: self.library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}, row_strides={"w": 99}))

    def test_threads(self):
        wrong = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(50):
                x = rng.normal(size=(rng.integers(1, 40), K)).astype(np.float32)
                y = self.kernel(x)
                if not np.allclose(y, right(x, self.g, self.w), rtol=1e-3, atol=1e-4):
                    wrong.append(seed)
        threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_kernel_outlives_its_library(self):
        library = tenon.Library(DATABASE, device="host")
        kernel = library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}, max_m=4)
        library.close()
        del library
        x = self.draw(4, K)
        self.check(kernel(x), x)

    def test_packed_bytes(self):
        with open(os.environ["TENON_TEST_PACK"], "rb") as file:
            library = tenon.Library(file.read(), device="host")
        x = self.draw(9, K)
        self.check(library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}, max_m=16)(x), x)

    def test_read_only_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pack.db")
            with open(os.environ["TENON_TEST_PACK"], "rb") as source, open(path, "wb") as copy:
                copy.write(source.read())
            os.chmod(path, 0o444)
            os.chmod(folder, 0o555)
            try:
                library = tenon.Library(path, device="host")
                library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}, max_m=4)
            finally:
                os.chmod(folder, 0o755)

    def says(self, kind, pattern, call):
        with self.assertRaisesRegex(kind, pattern) as caught:
            call()
        self.assertNotIn("\n", str(caught.exception))

    def test_errors_are_one_sentence(self):
        bind = self.library.bind
        good = {"g": self.g, "w": self.w}
        self.says(tenon.NotFoundError, "n is 40", lambda: bind("rmsnorm_linear", {"g": self.g, "w": self.w[:, :30].copy()}, max_m=4))
        self.says(tenon.NotFoundError, "eps", lambda: bind("rmsnorm_linear", good, max_m=4, attributes={"eps": 0.5}))
        self.says(tenon.BadInputError, "rmsnorm_linear", lambda: bind("no_such_program", good))
        self.says(tenon.BadInputError, "parameters are g", lambda: bind("rmsnorm_linear", {"g": self.g}))
        self.says(tenon.BadInputError, "elsewhere", lambda: bind("rmsnorm_linear", {"g": self.g[:-1].copy(), "w": self.w}))
        self.says(tenon.BadInputError, "contiguous", lambda: bind("rmsnorm_linear", {"g": self.g, "w": self.w.T.copy().T}))
        self.says(tenon.BadInputError, "m", lambda: self.kernel(self.draw(101, K)))
        self.says(tenon.BadInputError, "shape", lambda: self.kernel(self.draw(3, K + 1)))
        self.says(tenon.BadInputError, "fp16", lambda: self.kernel(self.draw(3, K).astype(np.float16)))
        self.says(tenon.BadInputError, "element type", lambda: self.kernel(self.draw(3, K).astype(np.int32)))
        self.says(tenon.BadInputError, "out has shape", lambda: self.kernel(self.draw(3, K), out=np.empty((2, N), np.float32)))
        self.says(tenon.BadInputError, "activations", lambda: self.kernel())
        self.says(tenon.BadInputError, "DLPack", lambda: self.kernel([[1.0]]))
        self.says(tenon.BadInputError, "does not exist", lambda: tenon.Library("/nonexistent/tuning.db", "host"))
        self.says(tenon.BadInputError, "abacus", lambda: tenon.Library(DATABASE, "abacus"))
        self.says(tenon.DeviceError, "cuda:99", lambda: tenon.Library(DATABASE, "cuda:99"))
        self.says(tenon.BadInputError, "Tenon database", lambda: tenon.Library(b"no database", "host"))

    def test_closed_handles_are_named(self):
        library = tenon.Library(DATABASE, device="host")
        kernel = library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}, max_m=4)
        library.close()
        library.close()
        self.says(tenon.BadInputError, "the library is closed", lambda: library.device)
        self.says(tenon.BadInputError, "the library is closed", lambda: library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}))
        x = self.draw(3, K)
        self.check(kernel(x), x)
        kernel.close()
        kernel.close()
        for use in (lambda: kernel.note, lambda: kernel.max_m, lambda: kernel.min_m, lambda: kernel.reads("w"), lambda: kernel.segment(1),
                    lambda: kernel(x)):
            self.says(tenon.BadInputError, "the kernel is closed", use)
        self.says(tenon.BadInputError, "kernel is 'NULL'", lambda: kernel.launch_one(x.ctypes.data, x.ctypes.data, 3))

    def test_types_of_parameters_are_the_kernels(self):
        half = {"g": self.g.astype(np.float16), "w": self.w.astype(np.float16)}
        self.says(tenon.BadInputError, "parameter g is fp16; fp32 is needed", lambda: self.library.bind("rmsnorm_linear", half, dtype="fp32", max_m=4))
        mixed = {"g": self.g, "w": self.w.astype(np.float16)}
        self.says(tenon.BadInputError, "one type", lambda: self.library.bind("rmsnorm_linear", mixed, max_m=4))
        # numpy's numbers are numbers.
        self.says(tenon.NotFoundError, "eps", lambda: self.library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}, max_m=4,
                                                                         attributes={"eps": np.float64(0.5)}))
        kernel = self.library.bind("rmsnorm_linear", {"g": self.g, "w": self.w}, max_m=4, attributes={"eps": np.float64(1e-6)})
        x = self.draw(2, K)
        self.check(kernel(x), x)

    def test_read_only_and_odd_arrays(self):
        x, w = self.draw(3, K), self.w.copy()
        x.flags.writeable = w.flags.writeable = False
        kernel = self.library.bind("rmsnorm_linear", {"g": self.g, "w": w}, max_m=4)
        self.check(kernel(x), x)
        out = np.empty((3, N), np.float32)
        out.flags.writeable = False
        self.says(tenon.BadInputError, "out is read-only", lambda: kernel(x, out=out))
        self.says(tenon.BadInputError, "contiguous", lambda: kernel(x[:, ::-1]))
        self.says(tenon.BadInputError, "contiguous", lambda: kernel(np.broadcast_to(x[:1], (3, K))))
        self.says(tenon.BadInputError, "byte order", lambda: kernel(x.astype(">f4")))
        self.says(tenon.BadInputError, "element type", lambda: kernel(x.astype(object)))
        odd = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(3, K)
        self.says(tenon.BadInputError, "multiple of its elements' 4 bytes", lambda: kernel(odd))

        class Refuses:
            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self):
                raise BufferError("no")
        self.says(tenon.BadInputError, "cannot be shared through DLPack: no", lambda: kernel(Refuses()))

    def test_launches_over_addresses_are_checked(self):
        x, y = self.draw(3, K), np.empty((3, N), np.float32)
        at = (x.ctypes.data, y.ctypes.data)
        self.kernel.launch([at[0], 0, 0], [at[1]], 3)
        self.check(y, x)
        self.says(tenon.BadInputError, "1 inputs were given; rmsnorm_linear has 3", lambda: self.kernel.launch([at[0]], [at[1]], 3))
        self.says(tenon.BadInputError, "0 outputs were given; rmsnorm_linear has 1", lambda: self.kernel.launch([at[0], 0, 0], [], 3))
        self.says(tenon.BadInputError, "input 0 of a launch is 'NULL'", lambda: self.kernel.launch([0, 0, 0], [at[1]], 3))
        self.says(tenon.BadInputError, "output 0 of a launch is 'NULL'", lambda: self.kernel.launch_one(at[0], 0, 3))
        for m in (-1, 101, 2**63 - 1):
            self.says(tenon.BadInputError, f"m is '{m}'; accepted: 1 to 100", lambda: self.kernel.launch_one(*at, m))
        for m in (2**63, 2**64 + 3, -2**63 - 1):
            self.says(tenon.BadInputError, "64 bits", lambda: self.kernel.launch_one(*at, m))
            self.says(tenon.BadInputError, "64 bits", lambda: self.kernel.launch([at[0], 0, 0], [at[1]], m))
            self.says(tenon.BadInputError, "64 bits", lambda: self.kernel.segment(m))
        self.says(tenon.BadInputError, "m is '0'; accepted: 1 to 100", lambda: self.kernel.segment(0))

    def test_messages_are_text_whatever_was_given(self):
        self.says(tenon.BadInputError, "database is ''", lambda: tenon.Library("", "host"))
        self.says(tenon.BadInputError, r"/nowhere/\\xff.db", lambda: tenon.Library(os.fsdecode(b"/nowhere/\xff.db"), "host"))

    def test_a_pack_of_a_newer_version(self):
        with open(os.environ["TENON_TEST_PACK"], "rb") as file:
            newer = bytearray(file.read())
        newer[60:64] = (99).to_bytes(4, "big")  # SQLite's user_version
        self.says(tenon.BadInputError, "version 99", lambda: tenon.Library(bytes(newer), "host"))

    def test_optimize(self):
        with tempfile.TemporaryDirectory() as folder:
            database = os.path.join(folder, "t.db")
            report = tenon.optimize("rmsnorm_linear", {"m": 2, "k": 16, "n": 8}, dtype="fp32", device="host", database=database, budget=3)
            self.assertGreater(report["best"]["time_us"], 0)
            x, g, w = self.draw(2, 16), self.draw(16), self.draw(16, 8)
            y = tenon.Library(database, "host").bind("rmsnorm_linear", {"g": g, "w": w}, max_m=2)(x)
            self.check(y, x, g, w)
        self.says(tenon.BadInputError, "k", lambda: tenon.optimize("rmsnorm_linear", {"m": 2, "k": 0, "n": 8}, device="host"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
