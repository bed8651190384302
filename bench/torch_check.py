#!/usr/bin/env python3
"""tenon.torch on a GPU: modules against float64 under every way of calling them (eager, inference mode,
torch.compile, CUDA graphs, other streams, many threads), changed weights, released weights, shapes without a kernel.

  bench/torch_check.py --db tuning.db        # which holds rmsnorm_linear 16x4096x6144, eps 1e-6
  bench/torch_check.py --db natural.db --natural      # the same, for weights [n, k] (optimize --layout w=n,k)
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


def released(a, dtype, right_of):
    """Modules without their original weights: the device's memory, the results, state dicts."""
    cuda = a.device == "cuda"
    norm = torch.nn.RMSNorm(a.k, eps=1e-6, device=a.device, dtype=dtype)
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(16, a.k, device=a.device, dtype=dtype)

    def memory():
        if cuda:
            torch.cuda.synchronize()
        return torch.cuda.memory_allocated() if cuda else 0

    for widths, keep in (((a.n,), "cpu"), ((a.n,), None), ((a.n - 8, 8), "cpu"), ((a.n - 8, 8), None)):
        name = f"released, {len(widths)} layers, keep={keep}"
        linears = [torch.nn.Linear(a.k, n, bias=False, device=a.device, dtype=dtype) for n in widths]
        fused = tt.RMSNormLinear.from_torch(norm, *linears, max_m=64)
        call = (lambda x: fused(x)) if len(widths) == 1 else (lambda x: torch.cat(fused(x), -1))
        state = {k: v.detach().cpu().clone() for k, v in fused.state_dict().items()}
        weight = torch.cat([state[k] for k in sorted(state) if k.startswith("linear")]).to(a.device)
        with torch.no_grad():
            y = call(x)
            check(name + ": right before", *right_of(y, x, norm, weight))
            reads = sorted(fused._bound)
            before = memory()
            freed = fused.release_originals(keep)
            after = memory()
            check(name + f": memory given back (launches read {reads or 'nothing of the weights'})", not cuda or before - after == freed,
                  f"{before - after} bytes, {freed} were said")
            check(name + ": the same result", torch.equal(call(x), y))
            if cuda:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    z = call(x)
                graph.replay()
                torch.cuda.synchronize()
                check(name + ": the same in a CUDA graph", torch.equal(z, y))
            same = lambda own: own.keys() == state.keys() and all(torch.equal(own[k].cpu(), state[k]) for k in state)
            if keep == "cpu" or reads:
                check(name + ": the state dict", same(fused.state_dict()))
            elif freed:
                try:
                    fused.state_dict()
                    check(name + ": a state dict of dropped weights is refused", False)
                except tenon.BadInputError as error:
                    check(name + ": a state dict of dropped weights is refused", "released" in str(error), str(error))
            fused.load_state_dict(state)
            check(name + ": loaded again", same(fused.state_dict()) and torch.equal(call(x), y))
            t = torch.randn(65, a.k, device=a.device, dtype=dtype)
            check(name + ": and the plain form is there again", *right_of(call(t), t, norm, weight))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--k", type=int, default=4096)
    parser.add_argument("--n", type=int, default=6144)
    parser.add_argument("--natural", action="store_true", help="the database holds plans for weights as nn.Linear keeps them, and no others")
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
            "rmsnorm_linear", {"g": norm.weight.detach(), "w": weight if a.natural else weight.t().contiguous()}, max_m=16,
            layouts={"w": "n,k"} if a.natural else None)
        check("tenon.Library with torch tensors", *right(kernel(x), x, norm, weight, bound))
    released(a, dtype, lambda y, x, norm, weight: right(y, x, norm, weight, bound))
    print(f"{len(failures)} failed" if failures else "all passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
