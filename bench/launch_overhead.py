#!/usr/bin/env python3
"""What a call from Python costs the calling thread: PyTorch's operator tenon::layer and the module,
beside F.linear and nn.Linear of the same shape. Batches take turns, each begun with an idle
device; a batch's time divided by its calls is a sample, and the medians are compared.

  bench/launch_overhead.py --db tuning.db --m 16 --k 4096 --n 6144 --out launch.json
"""
import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))


def batch(torch, call, calls, cuda):
    if cuda:
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    elapsed = time.perf_counter() - begin
    if cuda:
        torch.cuda.synchronize()
    return elapsed / calls * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True, help="tuning database that holds the shape")
    parser.add_argument("--m", type=int, default=16)
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--n", type=int, default=6144)
    parser.add_argument("--eps", type=float, default=1e-6)
    parser.add_argument("--device", default="cuda", help="cuda or cpu (there the products' own time is in it)")
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--out", help="a JSON file")
    arguments = parser.parse_args()
    import torch
    import tenon.torch as tt

    tt.set_database(arguments.db)
    cuda = arguments.device == "cuda"
    m, k, n = arguments.m, arguments.k, arguments.n
    norm = torch.nn.RMSNorm(k, eps=arguments.eps, device=arguments.device, dtype=torch.bfloat16)
    linear = torch.nn.Linear(k, n, bias=False, device=arguments.device, dtype=torch.bfloat16)
    x = torch.randn(m, k, device=arguments.device, dtype=torch.bfloat16)
    fused = tt.RMSNormLinear.from_torch(norm, linear, max_m=m)
    with torch.inference_mode():
        fused(x)
        if fused.state != "bound":
            raise SystemExit("launch_overhead: nothing is stored for this shape")
        number, weight, F = fused._number, linear.weight, torch.nn.functional
        operator = torch.ops.tenon.layer.default
        calls = {
            "F.linear": lambda: F.linear(x, weight),
            "tenon::layer": lambda: operator(x, number, n),
            "torch.ops.tenon.layer": lambda: torch.ops.tenon.layer(x, number, n),
            "nn.Linear": lambda: linear(x),
            "RMSNormLinear": lambda: fused(x),
            "rms_norm + linear": lambda: F.linear(F.rms_norm(x, (k,), norm.weight, arguments.eps), weight),
        }
        samples = {name: [] for name in calls}
        for round_ in range(arguments.batches + 10):
            for name, call in calls.items():
                us = batch(torch, call, 50, cuda)
                if round_ >= 10:
                    samples[name].append(us)
    medians = {name: statistics.median(s) for name, s in samples.items()}
    ratio = medians["tenon::layer"] / medians["F.linear"]
    result = {"device": torch.cuda.get_device_name() if cuda else "host", "torch": torch.__version__, "m": m, "k": k, "n": n, "us": medians,
              "operator_over_linear": ratio, "module_over_module": medians["RMSNormLinear"] / medians["nn.Linear"],
              "native": tt.native_note == "", "note": tt.native_note}
    print(json.dumps(result, indent=1))
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n")
    held = ratio <= 1.2
    print(f"tenon::layer takes {ratio:.2f} times F.linear's time to launch (at most 1.2): {'held' if held else 'MISSED'}")
    return 0 if held or not cuda else 1


if __name__ == "__main__":
    sys.exit(main())
