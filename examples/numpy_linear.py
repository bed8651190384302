#!/usr/bin/env python3
"""Tunes a small shape on the host and runs it over numpy arrays.

  examples/numpy_linear.py [DATABASE]
"""
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import numpy as np

import tenon


def main():
    database = sys.argv[1] if len(sys.argv) > 1 else str(Path(tempfile.mkdtemp()) / "tuning.db")
    k, n = 64, 96
    report = tenon.optimize("rmsnorm_linear", {"m": 8, "k": k, "n": n}, dtype="fp32", device="host", database=database, budget=5)
    print(f"tuned: {report['best']['time_us']:.1f} us, unfused {report['best']['reference_time_us']:.1f} us")

    rng = np.random.default_rng(0)
    gamma, weight = rng.normal(size=k).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    kernel = tenon.Library(database, device="host").bind("rmsnorm_linear", {"g": gamma, "w": weight}, max_m=100)
    worst = 0.0
    for rows in (1, 8, 30, 100):
        x = rng.normal(size=(rows, k)).astype(np.float32)
        y = kernel(x)
        wide = x.astype(np.float64)
        want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * gamma @ weight.astype(np.float64)
        error = np.abs(y - want).max() / np.abs(want).max()
        print(f"{rows:4} rows by plan {kernel.segment(rows).plan}: largest error {error:.1e}")
        worst = max(worst, error) if error == error else float("inf")
    return 0 if worst <= 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
