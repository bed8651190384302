#!/usr/bin/env python3
"""Tenon beside its peers: one run, one table.

For each shape (bf16 RMSNorm + linear): the floor (a cold read of the shape's bytes, or its FLOP at the
measured rate), cuBLASLt's bare product (best of its heuristics), eager PyTorch, torch.compile max-autotune,
a Triton one-pass kernel, and Tenon's stored winner, plain and as a chain with dependent launch.
All contenders run inside CUDA graphs over inputs and weights that rotate over more than four times the L2,
interleaved (A B C A B C …); a time is the median of the samples, with the interquartile range. Long
calls are measured in bursts: idle 30 ms, one warm replay, one timed.

  bench/compare.py --tenon build/cli/tenon --library build/runtime/libtenon_runtime.so --out bench/results/x.json
"""
import argparse
import datetime
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

SHAPES = [  # m, k, n, where, goal plain, goal dependent (microseconds, docs/performance.md), floor there
    (1, 4096, 6144, "Llama-3-8B qkv", 13.2, 11.6, 12.9),
    (16, 4096, 6144, "Llama-3-8B qkv", 14.0, 12.4, 12.9),
    (64, 4096, 6144, "Llama-3-8B qkv", 15.8, 15.0, 13.1),
    (256, 4096, 6144, "Llama-3-8B qkv", 20.0, 19.0, 16.3),
    (4096, 4096, 6144, "Llama-3-8B qkv", 263, 261, 261),
    (1, 4096, 28672, "Llama-3-8B gate+up", 55.5, 54.3, 54.5),
    (16, 4096, 28672, "Llama-3-8B gate+up", 56.0, 54.7, 54.5),
    (4096, 4096, 28672, "Llama-3-8B gate+up", 1222, 1217, 1217),
    (16, 7168, 2112, "DeepSeek-V3 q_a+kv_a", 9.6, 8.5, 8.4),
    (4096, 7168, 2112, "DeepSeek-V3 q_a+kv_a", 166, 164, 157),
    (16, 576, 960, "SmolLM2-135M qkv", 2.4, 2.0, 1.8),
    (16, 1024, 6144, "Qwen3-0.6B gate+up", 5.2, 4.3, 4.4),
]
EPS = 1e-6


class Contender:
    """Calls over rotating copies, captured once as a graph."""

    def __init__(self, name, calls, torch):
        self.name, self.count, self.samples = name, len(calls), []
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            # All of them, before the capture: a bound kernel's first launch is never a dependent one.
            for call in calls:
                call()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            for call in calls:
                call()
        self.graph.replay()
        torch.cuda.synchronize()

    def sample(self, torch, burst):
        if burst:
            time.sleep(0.03)
        self.graph.replay()
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        self.graph.replay()
        end.record()
        torch.cuda.synchronize()
        self.samples.append(begin.elapsed_time(end) * 1e3 / self.count)

    def result(self):
        s = sorted(self.samples)
        return {"us": statistics.median(s), "iqr_us": s[(3 * len(s)) // 4] - s[len(s) // 4], "samples": len(s)}


def cold_read(torch):
    """A kernel that reads `bytes` once; None where CuPy is missing."""
    try:
        import cupy
    except ImportError:
        return None
    source = r"""
extern "C" __global__ void __launch_bounds__(512) cold_read(const uint4* p, long long n, unsigned* sink) {
  unsigned s = 0;
  const long long stride = (long long)gridDim.x * blockDim.x * 8;
  for (long long i = (long long)blockIdx.x * blockDim.x * 8 + threadIdx.x; i < n; i += stride) {
    uint4 v[8];
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      const long long j = i + u * (long long)blockDim.x;
      v[u] = j < n ? __ldcs(p + j) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int u = 0; u < 8; ++u) s ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
  }
  if (s == 0x12345) *sink = s;
}"""
    kernel = cupy.RawKernel(source, "cold_read")
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")

    def read(address, size, blocks):
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        with stream:
            kernel((blocks,), (512,), (address, size // 16, sink.data_ptr()))

    return read


def triton_one_pass():
    """The textbook one-pass kernel (bench/triton_one_pass.py); None where Triton is missing."""
    try:
        from triton_one_pass import one_pass
    except ImportError:
        return None
    return one_pass


def tune(arguments, m, k, n, launch):
    command = [arguments.tenon, "optimize", "rmsnorm_linear", "--m", str(m), "--k", str(k), "--n", str(n), "--dtype", "bf16",
               "--device", "cuda:0", "--db", arguments.db, "--budget", arguments.budget, "--launch", launch, "--json"]
    begin = time.time()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    report = json.loads(done.stdout)
    report["wall_seconds"] = time.time() - begin
    return report


def bench_shape(arguments, torch, shape, library, read, fused_triton, rate):
    F = torch.nn.functional
    m, k, n, where, goal, goal_dependent, old_floor = shape
    weights = k * n * 2
    copies = max(2, min(64, int(arguments.rotate_mb * 1e6 // weights) + 1))
    generator = torch.Generator(device="cuda").manual_seed(1)
    randn = lambda *s: torch.randn(*s, device="cuda", dtype=torch.bfloat16, generator=generator)
    xs = [randn(m, k) for _ in range(copies)]
    ws = [randn(n, k) * k**-0.5 for _ in range(copies)]
    kn = [w.t().contiguous() for w in ws]
    g = randn(k)
    ys = [torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    repeat = max(1, 16 // copies) if m < 1024 else 1
    order = list(range(copies)) * repeat
    row = {"m": m, "k": k, "n": n, "where": where, "copies": copies, "goal_ratio": goal / old_floor,
           "goal_dependent_ratio": goal_dependent / old_floor}
    x64 = xs[0].double()
    y64 = (x64 / (x64.pow(2).mean(1, keepdim=True) + EPS).sqrt() * g.double()) @ ws[0].double().T

    contenders = []

    def add(name, make):
        try:
            contenders.append(Contender(name, make(), torch))
        except Exception as error:  # a peer that fails is left out, and said so
            row.setdefault("left_out", {})[name] = str(error).splitlines()[0][:200]

    stream = lambda: torch.cuda.current_stream().cuda_stream
    if read is not None:
        size = 2 * (m * k + k * n + m * n + k)
        big = torch.randint(0, 2**31 - 1, (max(2 * size, int(arguments.rotate_mb * 1e6)) // 4 + 4,), dtype=torch.int32, device="cuda")
        slots = max(2, big.numel() * 4 // size)
        for blocks in (264, 528):
            add(f"cold_read_{blocks}", lambda b=blocks: [(lambda i=i: read(big.data_ptr() + (i % slots) * (size // 16 * 16), size, b))
                                                         for i in range(max(2, min(slots, 64)))])
    try:
        from cublaslt import Product
        product = Product(m, k, n)
        for index, algorithm in enumerate(product.algorithms[:arguments.heuristics]):
            add(f"cublaslt_{index}", lambda a=algorithm: [(lambda i=i: product.run(a, xs[i], ws[i], ys[i])) for i in order])
    except RuntimeError as error:
        row.setdefault("left_out", {})["cublaslt"] = str(error)
    eager = lambda x, w: F.linear(F.rms_norm(x, (k,), g, EPS), w)
    add("eager", lambda: [(lambda i=i: eager(xs[i], ws[i])) for i in order])

    def compiled():
        torch._dynamo.reset()
        f = torch.compile(eager, mode="max-autotune-no-cudagraphs", dynamic=False)
        begin = time.time()
        f(xs[0], ws[0])
        row["torch_compile_tune_s"] = time.time() - begin
        return [(lambda i=i: f(xs[i], ws[i])) for i in order]

    if not arguments.no_compile:
        add("torch_compile", compiled)
    if fused_triton is not None and not arguments.no_triton:
        begin = time.time()
        add("triton_one_pass", lambda: [(lambda i=i: fused_triton(xs[i], ws[i], ys[i], EPS)) for i in order])
        row["triton_tune_s"] = time.time() - begin
    bound = []
    if library is not None:
        for launch, dependent in (("tenon", False), ("tenon_dependent", True)):
            if ("dependent" if dependent else "plain") not in arguments.launches.split(","):
                continue
            try:
                kernels = [library.bind("rmsnorm_linear", {"m": m, "k": k, "n": n}, "bf16", [0, g.data_ptr(), w.data_ptr()], dependent, stream())
                           for w in kn]
            except RuntimeError as error:
                row.setdefault("left_out", {})[launch] = str(error)[:200]
                continue
            bound += kernels
            row[launch + "_form"], row[launch + "_schedule"] = kernels[0].describe()
            torch.cuda.synchronize()
            ys[0].fill_(float("nan"))
            kernels[0].launch(xs[0].data_ptr(), ys[0].data_ptr(), m, stream(), dependent)
            torch.cuda.synchronize()
            error = (ys[0].double() - y64).norm(dim=1) / y64.norm(dim=1)
            row[launch + "_row_error"] = error.max().item()
            add(launch, lambda ks=kernels, d=dependent: [(lambda i=i: ks[i].launch(xs[i].data_ptr(), ys[i].data_ptr(), m, stream(), d)) for i in order])

    burst = 2 * m * k * n / rate > 50e-6
    for _ in range(3):  # screen the library's heuristics and the read variants
        for contender in contenders:
            contender.sample(torch, burst)
    keep = []
    for prefix in ("cold_read", "cublaslt"):
        group = [c for c in contenders if c.name.startswith(prefix)]
        group.sort(key=lambda c: c.result()["us"])
        keep += group[:2]
    keep += [c for c in contenders if not c.name.startswith(("cold_read", "cublaslt"))]
    for contender in keep:
        contender.samples.clear()
    for _ in range(arguments.samples):
        for contender in keep:
            contender.sample(torch, burst)
    times = {}
    for contender in keep:
        name = "cold_read" if contender.name.startswith("cold_read") else "cublaslt" if contender.name.startswith("cublaslt") else contender.name
        result = contender.result()
        if name not in times or result["us"] < times[name]["us"]:
            times[name] = result
    row["times"] = times
    row["burst"] = burst
    flop_us = 2 * m * k * n / rate * 1e6
    row["floor_us"] = max(times.get("cold_read", {"us": 0})["us"], flop_us)
    for kernel in bound:
        kernel.close()
    return row


def print_table(rows):
    columns = ["floor", "cublaslt", "eager", "torch_compile", "triton_one_pass", "tenon", "tenon_dependent"]
    print(f"{'M×K×N':>18} " + " ".join(f"{c:>15}" for c in columns) + f" {'/peer':>6} {'/bare':>6} {'/floor':>6} {'goal':>6} {'dep/floor':>9} {'goal':>6}")
    for r in rows:
        t = r["times"]
        cells = [f"{r['floor_us']:15.2f}"]
        for c in columns[1:]:
            cells.append(f"{t[c]['us']:9.2f}±{t[c]['iqr_us']:5.2f}" if c in t else f"{'–':>15}")
        tail = ""
        if "tenon" in t:
            peers = [t[c]["us"] for c in ("eager", "torch_compile", "triton_one_pass") if c in t]
            us = t["tenon"]["us"]
            bare = f"{us / t['cublaslt']['us']:6.3f}" if "cublaslt" in t else "     –"
            dependent = f"{t['tenon_dependent']['us'] / r['floor_us']:9.3f}" if "tenon_dependent" in t else f"{'–':>9}"
            tail = f" {us / min(peers):6.3f} {bare} {us / r['floor_us']:6.3f} {r['goal_ratio']:6.3f} {dependent} {r['goal_dependent_ratio']:6.3f}"
        print(f"{r['m']}×{r['k']}×{r['n']}".rjust(18) + " " + " ".join(cells) + tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", help="the tenon command; tunes each shape first")
    parser.add_argument("--library", help="libtenon_runtime.so; without it only the peers run")
    parser.add_argument("--db", default="bench.db", help="tuning database")
    parser.add_argument("--budget", default="40s", help="of tuning one shape for one launch mode")
    parser.add_argument("--launches", default="plain,dependent", help="what is tuned and measured: plain, dependent or both")
    parser.add_argument("--samples", type=int, default=21)
    parser.add_argument("--heuristics", type=int, default=16, help="of cuBLASLt that are tried")
    parser.add_argument("--rotate-mb", type=float, default=260, help="weights rotate over this many MB at least")
    parser.add_argument("--shapes", help="m,k,n;m,k,n … instead of the table")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    parser.add_argument("--no-triton", action="store_true", help="leave out the Triton kernel")
    parser.add_argument("--out", default="compare.json")
    parser.add_argument("--limit-s", type=float, default=1e9, help="start no further shape after this many seconds")
    arguments = parser.parse_args()
    import torch
    begin = time.time()
    shapes = SHAPES
    if arguments.shapes:
        shapes = []
        for text in arguments.shapes.split(";"):
            m, k, n = map(int, text.split(","))
            known = [s for s in SHAPES if s[:3] == (m, k, n)]
            shapes.append(known[0] if known else (m, k, n, "", float("nan"), float("nan"), 1.0))
    read, fused = cold_read(torch), triton_one_pass()
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    bare = Contender("rate", [lambda: torch.mm(a, a.t())], torch)
    for _ in range(5):
        bare.sample(torch, True)
    rate = 2 * 8192**3 / (bare.result()["us"] * 1e-6)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    record = {"date": datetime.date.today().isoformat(), "device": torch.cuda.get_device_name(), "driver": driver, "torch": torch.__version__,
              "bf16_tflops_8192_burst": rate / 1e12, "protocol": __doc__, "rows": []}
    library = None
    for shape in shapes:
        if time.time() - begin > arguments.limit_s:
            print(f"time limit: {shape[:3]} and what follows were not run")
            record["cut_off"] = True
            break
        tuning = {}
        if arguments.tenon:
            for launch in arguments.launches.split(","):
                try:
                    report = tune(arguments, *shape[:3], launch)
                    tuning[launch] = {"seconds": report["wall_seconds"], "search": report["search"], "stop_reason": report["stop_reason"],
                                      "top": [[c["time_us"], c["label"], c["schedule"]] for c in report["candidates"][:12]]}
                except (RuntimeError, ValueError, IndexError) as error:
                    tuning[launch] = {"error": str(error)[:300]}
        if arguments.library and library is None:
            from tenon_ctypes import Library
            library = Library(arguments.library, arguments.db)
        row = bench_shape(arguments, torch, shape, library, read, fused, rate)
        row["tuning"] = tuning
        record["rows"].append(row)
        print_table([row])
        sys.stdout.flush()
        Path(arguments.out).write_text(json.dumps(record, indent=1))
        torch.cuda.empty_cache()
    print()
    print_table(record["rows"])


if __name__ == "__main__":
    main()
