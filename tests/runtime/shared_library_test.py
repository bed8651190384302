#!/usr/bin/env python3
"""libtenon_runtime.so from outside: it exports the C API and nothing else, as the header declares it, and
links SQLite, TBB and the C++ and C runtimes and nothing else.

  shared_library_test.py LIBRARY HEADER EXPORTED_SYMBOLS.txt
"""
import re
import subprocess
import sys
import unittest

LIBRARY, HEADER, LIST = sys.argv[1:4]
ALLOWED = {"libsqlite3", "libtbb", "libstdc++", "libm", "libgcc_s", "libc", "libpthread", "libdl", "librt", "ld-linux-x86-64", "ld-linux-aarch64"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class SharedLibrary(unittest.TestCase):
    def test_exports_the_list(self):
        symbols = sorted(line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines())
        symbols = [s for s in symbols if not re.fullmatch(r"TENON_\d+", s)]  # the version's own symbol
        with open(LIST) as expected:
            self.assertEqual(symbols, expected.read().split())

    def test_symbols_have_a_version(self):
        for line in output("nm", "-D", "--defined-only", "--with-symbol-versions", LIBRARY).splitlines():
            if line.split()[-1] != "TENON_1":  # the version's own symbol
                self.assertRegex(line.split()[-1], r"@@?TENON_1$")

    def test_header_declares_what_is_exported(self):
        with open(HEADER) as header:
            declared = set(re.findall(r"\b(tenon_\w+)\s*\(", re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)))
        with open(LIST) as expected:
            self.assertEqual(declared, set(expected.read().split()))

    def test_soname_has_the_abi_version(self):
        with open(HEADER) as header:
            version = re.search(r"#define TENON_ABI_VERSION (\d+)", header.read()).group(1)
        self.assertIn(f"[libtenon_runtime.so.{version}]", output("readelf", "-d", LIBRARY))

    def test_links_little(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*?)\]", output("readelf", "-d", LIBRARY))
        self.assertIn("libsqlite3.so.0", needed)
        loaded = [line.split()[0].split("/")[-1] for line in output("ldd", LIBRARY).splitlines()]
        self.assertNotIn("not found", output("ldd", LIBRARY))
        for name in needed + loaded:
            self.assertTrue(name.split(".so")[0] in ALLOWED or name.startswith("linux-vdso"), name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
