#!/usr/bin/env python3
"""A tuned layer in a CUDA graph: captured once, replayed with new values in the same tensor.

  tenon optimize rmsnorm_linear --m 16 --k 4096 --n 6144
  examples/cuda_graph.py --db tuning.db
"""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

try:
    import torch
except ImportError:
    sys.exit("cuda_graph.py needs PyTorch, which is not installed for " + sys.executable)

import tenon.torch as tt


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--m", type=int, default=16)
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--n", type=int, default=6144)
    a = parser.parse_args()
    tt.set_database(a.db)
    norm = torch.nn.RMSNorm(a.k, eps=1e-6, device="cuda", dtype=torch.bfloat16)
    linear = torch.nn.Linear(a.k, a.n, bias=False, device="cuda", dtype=torch.bfloat16)
    layer = tt.RMSNormLinear.from_torch(norm, linear, max_m=a.m)
    x = torch.randn(a.m, a.k, device="cuda", dtype=torch.bfloat16)
    worst = 0.0
    with torch.inference_mode():
        layer(x)  # binds: not legal in a capture
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = layer(x)
        for _ in range(3):
            x.copy_(torch.randn_like(x))
            graph.replay()
            want = layer.plain(x).double()
            error = ((y.double() - want).norm() / want.norm()).item()
            worst = max(worst, error) if error == error else float("inf")
    print(f"{layer.state}; plan {layer.kernel.segment(a.m).plan}; 3 replays, difference from the plain form {worst:.1e}")
    return 0 if worst <= 1e-2 and layer.state == "bound" else 1


if __name__ == "__main__":
    sys.exit(main())
