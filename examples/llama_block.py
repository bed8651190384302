#!/usr/bin/env python3
"""A Llama-style block at random weights, before and after: RMSNorm + qkv and RMSNorm + gate and up become one
Tenon kernel each (tenon.torch), the rest stays PyTorch's. One token for each of M sequences, with a
cache of keys and values. Each contender is captured once as a CUDA graph, replays take turns,
and a time is the median; every output is compared with the block in float64.

  tenon optimize rmsnorm_linear --m 16 --k 4096 --n 6144 --attribute eps=1e-5
  tenon optimize rmsnorm_linear --m 16 --k 4096 --n 28672 --attribute eps=1e-5
  examples/llama_block.py --db tuning.db
"""
import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    sys.exit("llama_block.py needs PyTorch, which is not installed for " + sys.executable)

import tenon.torch as tt


class Block(nn.Module):
    """Attention and MLP, each behind an RMSNorm; `qkv` and `mlp` are what Tenon replaces."""

    def __init__(self, width, heads, kv_heads, inner, eps, cache, m, device, dtype):
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, width // heads
        linear = lambda a, b: nn.Linear(a, b, bias=False, device=device, dtype=dtype)
        self.attention_norm = nn.RMSNorm(width, eps=eps, device=device, dtype=dtype)
        self.q = linear(width, width)
        self.k, self.v = (linear(width, kv_heads * self.head) for _ in range(2))
        self.o = linear(width, width)
        self.mlp_norm = nn.RMSNorm(width, eps=eps, device=device, dtype=dtype)
        self.gate, self.up, self.down = linear(width, inner), linear(width, inner), linear(inner, width)
        for norm in (self.attention_norm, self.mlp_norm):
            nn.init.normal_(norm.weight, 1.0, 0.1)
        shape = (m, kv_heads, cache, self.head)
        self.register_buffer("keys", torch.randn(shape, device=device, dtype=dtype))
        self.register_buffer("values", torch.randn(shape, device=device, dtype=dtype))
        self.fused_qkv = self.fused_mlp = None

    def fuse(self, **options):
        """The same block with Tenon's modules; they share the weights."""
        self.fused_qkv = tt.RMSNormLinear.from_torch(self.attention_norm, self.q, self.k, self.v, **options)
        self.fused_mlp = tt.RMSNormGatedMLP.from_torch(self.mlp_norm, self.gate, self.up, self.down, **options)
        return self

    def forward(self, x):
        m = x.shape[0]
        if self.fused_qkv is not None:
            q, k, v = self.fused_qkv(x)
        else:
            normed = self.attention_norm(x)
            q, k, v = self.q(normed), self.k(normed), self.v(normed)
        # The new token's keys and values stand in the cache's last place.
        keys, values = self.keys, self.values
        keys[:, :, -1] = k.view(m, self.kv_heads, self.head)
        values[:, :, -1] = v.view(m, self.kv_heads, self.head)
        attended = F.scaled_dot_product_attention(q.view(m, self.heads, 1, self.head), keys, values, enable_gqa=True)
        h = x + self.o(attended.reshape(m, -1))
        if self.fused_mlp is not None:
            return h + self.fused_mlp(h)
        normed = self.mlp_norm(h)
        return h + self.down(F.silu(self.gate(normed)) * self.up(normed))


def capture(call):
    """A graph of one call, after the warm-up that binds and compiles, and its output."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = call()
    return graph.replay, lambda: y


def row_error(y, y64):
    return ((y.double() - y64).norm(dim=1) / y64.norm(dim=1)).max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--m", type=int, default=16)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--inner", type=int, default=14336)
    parser.add_argument("--cache", type=int, default=512, help="tokens of keys and values")
    parser.add_argument("--eps", type=float, default=1e-5)
    parser.add_argument("--peers", default="default", help="modes of torch.compile, separated by commas; empty: none")
    parser.add_argument("--samples", type=int, default=51)
    parser.add_argument("--out", help="a JSON file")
    parser.add_argument("--must-win", action="store_true", help="fail unless Tenon's block is the fastest")
    arguments = parser.parse_args()
    tt.set_database(arguments.db)
    torch.manual_seed(0)
    cuda = arguments.device == "cuda"
    a = arguments
    block = Block(a.width, a.heads, a.kv_heads, a.inner, a.eps, a.cache, a.m, a.device, torch.bfloat16).eval()
    x = torch.randn(a.m, a.width, device=a.device, dtype=torch.bfloat16)
    import copy
    contenders = {"eager": block}
    with torch.inference_mode():
        wide = copy.deepcopy(block).double()
        y64 = wide(x.double())
        del wide
        for mode in filter(None, arguments.peers.split(",")):
            contenders[f"torch.compile {mode}"] = torch.compile(copy.copy(block), mode=mode, dynamic=False)
        fused = copy.copy(block)
        fused._modules = dict(block._modules)
        fused.fuse(max_m=a.m)
        contenders["tenon"] = fused
        calls, outputs, tuning = {}, {}, {}
        for name, contender in contenders.items():
            begin = time.perf_counter()
            call = lambda c=contender: c(x)
            call()
            tuning[name] = time.perf_counter() - begin
        states = {"qkv": fused.fused_qkv.state, "gate and up": fused.fused_mlp.state}
        if arguments.peers:
            contenders["tenon, compiled"] = torch.compile(fused, dynamic=False)
            contenders["tenon, compiled"](x)
        for name, contender in contenders.items():
            call = lambda c=contender: c(x)
            if cuda:
                calls[name], outputs[name] = capture(call)
            else:
                y = call()
                calls[name], outputs[name] = call, lambda y=y: y
        times = {name: [] for name in calls}
        for _ in range(arguments.samples):
            for name, call in calls.items():
                if cuda:
                    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
                    call()
                    begin.record()
                    call()
                    end.record()
                    torch.cuda.synchronize()
                    times[name].append(begin.elapsed_time(end) * 1e3)
                else:
                    start = time.perf_counter()
                    call()
                    times[name].append((time.perf_counter() - start) * 1e6)
        if cuda:
            for call in calls.values():
                call()
            torch.cuda.synchronize()
        errors = {name: row_error(y(), y64) for name, y in outputs.items()}
    bound = 1.5 * errors["eager"] + 2.0**-9
    result = {"device": torch.cuda.get_device_name() if cuda else "host", "torch": torch.__version__, "m": a.m, "width": a.width, "inner": a.inner,
              "cache": a.cache, "states": states, "first_call_s": tuning, "row_error": errors, "row_error_bound": bound,
              "us": {name: {"median": statistics.median(s), "iqr": sorted(s)[3 * len(s) // 4] - sorted(s)[len(s) // 4]} for name, s in times.items()}}
    for name, t in result["us"].items():
        print(f"{name:40} {t['median']:10.2f} ± {t['iqr']:.2f} us   row error {errors[name]:.2e}")
    print(f"states: {states}; row errors must be at most {bound:.2e}")
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n")
    problems = [f"{name}: row error {e:.2e}" for name, e in errors.items() if not e <= bound]
    if set(states.values()) != {"bound"}:
        problems.append("a module runs its plain form: nothing is stored for its shape")
    ours = min(t["median"] for name, t in result["us"].items() if name.startswith("tenon"))
    theirs = min(t["median"] for name, t in result["us"].items() if not name.startswith("tenon"))
    print(f"Tenon's block takes {ours / theirs:.3f} of the fastest other's time")
    if arguments.must_win and not ours < theirs:
        problems.append("Tenon's block is not the fastest")
    for problem in problems:
        print("FAILED:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
