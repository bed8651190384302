#!/usr/bin/env python3
"""tenon.torch on a GPU: modules against float64 under every way of calling them (eager, inference mode,
torch.compile, CUDA graphs, other streams, many threads), changed weights, shapes without a kernel.

  bench/torch_check.py --db tuning.db        # which holds rmsnorm_linear 16x4096x6144, eps 1e-6
"""
import argparse
import sys
import threading
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import torch
import torch.nn.functional as F

import tenon
import tenon.torch as tt

failures = []


def check(name, good, detail=""):
    print(f"{'ok    ' if good else 'FAILED'} {name} {detail}")
    if not good:
        failures.append(name)


def right(y, x, norm, weight, bound):
    xd = x.double()
    y64 = (xd * torch.rsqrt(xd.pow(2).mean(-1, keepdim=True) + norm.eps) * norm.weight.double()) @ weight.double().T
    error = ((y.double() - y64).norm(dim=-1) / y64.norm(dim=-1)).max().item() if y.numel() else 0.0
    return error <= bound, f"row error {error:.2e}, at most {bound:.2e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--n", type=int, default=6144)
    a = parser.parse_args()
    cuda = a.device == "cuda"
    tt.set_database(a.db)
    torch.manual_seed(1)
    dtype = torch.bfloat16
    norm = torch.nn.RMSNorm(a.k, eps=1e-6, device=a.device, dtype=dtype)
    torch.nn.init.normal_(norm.weight)
    parts = [a.n // 2, a.n // 4, a.n - a.n // 2 - a.n // 4]
    linears = [torch.nn.Linear(a.k, p, bias=False, device=a.device, dtype=dtype) for p in parts]
    weight = torch.cat([l.weight for l in linears]).detach()
    fused = tt.RMSNormLinear.from_torch(norm, *linears, max_m=200)
    randn = lambda *s: torch.randn(*s, a.k, device=a.device, dtype=dtype)
    x = randn(16)
    plain = F.linear(F.rms_norm(x, (a.k,), norm.weight, norm.eps), weight).double()
    xd = x.double()
    y64 = (xd * torch.rsqrt(xd.pow(2).mean(-1, keepdim=True) + norm.eps) * norm.weight.double()) @ weight.double().T
    bound = 1.5 * ((plain - y64).norm(dim=-1) / y64.norm(dim=-1)).max().item() + 2.0**-9
    joined = lambda t: torch.cat(fused(t), -1)
    check("the operator is native", tt.native_note == "", tt.native_note)
    with torch.no_grad():
        for m in (1, 2, 15, 16, 17, 40, 100, 199, 200, 201):
            t = randn(m)
            check(f"m={m}", *right(joined(t), t, norm, weight, bound))
        check("bound", fused.state == "bound", fused.state)
        t = randn(2, 8)
        check("three dimensions", *right(joined(t), t, norm, weight, bound))
        check("no rows", joined(randn(0)).shape == (0, a.n))
        t = torch.randn(16, 2 * a.k, device=a.device, dtype=dtype)[:, :a.k]
        check("not contiguous", *right(joined(t), t, norm, weight, bound))
    with torch.inference_mode():
        check("inference mode", *right(joined(x), x, norm, weight, bound))
        compiled = torch.compile(joined, fullgraph=True)
        check("torch.compile", *right(compiled(x), x, norm, weight, bound))
        t = randn(33)
        check("torch.compile, another m", *right(compiled(t), t, norm, weight, bound))
    y = joined(x)  # gradients are wanted: the plain form, differentiable
    y.sum().backward()
    check("gradients", linears[0].weight.grad is not None and bool(torch.isfinite(linears[0].weight.grad).all()))
    with torch.no_grad():
        if cuda:
            graph = torch.cuda.CUDAGraph()
            static = x.clone()
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                joined(static)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                z = joined(static)
            for _ in range(3):
                static.copy_(randn(16))
                graph.replay()
                torch.cuda.synchronize()
                check("CUDA graph", *right(z, static, norm, weight, bound))
            problems = []

            def work(seed):
                own = torch.cuda.Stream()
                generator = torch.Generator(device="cuda").manual_seed(seed)
                with torch.no_grad(), torch.cuda.stream(own):
                    for i in range(20):
                        t = torch.randn(1 + (seed * 7 + i) % 40, a.k, device="cuda", dtype=dtype, generator=generator)
                        good, detail = right(joined(t), t, norm, weight, bound)
                        if not good:
                            problems.append(detail)
            threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            check("8 threads on 8 streams", not problems, "; ".join(problems[:2]))
        linears[0].weight.mul_(2)
        weight = torch.cat([l.weight for l in linears]).detach()
        check("weights changed in place", *right(joined(x), x, norm, weight, bound))
        state = {k: v.clone() for k, v in fused.state_dict().items()}
        check("state dict has the originals' names", set(state) == {"norm.weight", *(f"linears.{i}.weight" for i in range(3))}, str(sorted(state)))
        state["norm.weight"] *= 0.5
        fused.load_state_dict(state)
        check("weights loaded", *right(joined(x), x, norm, weight, bound))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            other = tt.RMSNormLinear.from_torch(norm, torch.nn.Linear(a.k, 24, bias=False, device=a.device, dtype=dtype))
            t = other(x)
            other(x)
            check("a shape without a kernel warns once", len([w for w in caught if "plain PyTorch form" in str(w.message)]) == 1, str([str(w.message) for w in caught])[:200])
            check("and is right", *right(t, x, norm, other.linear.weight, bound))
        kernel = tenon.Library(a.db, "cuda:0" if cuda else "host").bind(
            "rmsnorm_linear", {"g": norm.weight.detach(), "w": weight.t().contiguous()}, max_m=16)
        check("tenon.Library with torch tensors", *right(kernel(x), x, norm, weight, bound))
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
