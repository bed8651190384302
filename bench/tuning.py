#!/usr/bin/env python3
"""What tuning finds, by shape and strategy, and where its time goes.

For each shape (RMSNorm + linear) and strategy runs `tenon optimize` into an empty database and prints one line:
the time chosen, the unfused form of the same run, the cold-read floor of the shape's bytes by the curve
of docs/performance.md, what was compiled and timed, and the seconds of the longest steps.

  bench/tuning.py --tenon build/cli/tenon --shapes "16,4096,6144;256,4096,6144" --budget 60s --out tuning.json
  bench/tuning.py --strategies neighbours,exhaustive --schedules 48 ...   # is the choice as good as trying everything?
"""
import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

# Cold reads of an H200, MB and microseconds (docs/performance.md).
CURVE = [(1.05, 1.76), (12.6, 4.36), (17.2, 5.36), (30.3, 8.34), (50.3, 12.9), (83.9, 20.6), (168, 39.3), (235, 54.5), (939, 208)]
TFLOPS = 790


def floor_us(m, k, n, size):
    mb = (k * n + m * k + m * n) * size / 1e6
    points = [(0.0, 1.5)] + CURVE + [(10 * 939, 2080)]
    for (a, x), (b, y) in zip(points, points[1:]):
        if a <= mb <= b:
            read = x + (y - x) * (mb - a) / (b - a)
            break
    return max(read, 2 * m * k * n / TFLOPS / 1e6)


def run(arguments, shape, strategy, launch):
    m, k, n, dtype = shape
    with tempfile.TemporaryDirectory() as folder:
        command = [arguments.tenon, "optimize", "rmsnorm_linear", "--m", str(m), "--k", str(k), "--n", str(n), "--dtype", dtype,
                   "--device", arguments.device, "--db", str(Path(folder) / "t.db"), "--launch", launch, "--strategy", strategy,
                   "--budget", arguments.budget if strategy != "exhaustive" else arguments.exhaustive_budget, "--json"]
        if arguments.schedules:
            command += ["--schedules", str(arguments.schedules)]
        began = time.time()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.time() - began
    if done.returncode != 0:
        return {"shape": shape, "strategy": strategy, "launch": launch, "failed": done.stderr.strip().splitlines()[-1:]}
    report = json.loads(done.stdout)
    best = report["best"]
    return {"shape": shape, "strategy": strategy, "launch": launch, "seconds": seconds, "floor_us": floor_us(m, k, n, 4 if dtype == "fp32" else 2),
            "time_us": best["time_us"], "spread_us": best.get("spread_us"), "reference_us": best["reference_time_us"], "schedule": best["schedule"],
            "label": best.get("label"), "search": {x: report["search"][x] for x in ("distinct", "compiled", "measured", "failed")},
            "steps": {s["step"]: round(s["seconds"], 2) for s in report["steps"]}, "notes": report["notes"],
            "top": [[c["time_us"], c["schedule"], c["label"]] for c in report["candidates"][:arguments.top]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", default="build/cli/tenon")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--shapes", required=True, help="m,k,n[,dtype];…")
    parser.add_argument("--strategies", default="neighbours")
    parser.add_argument("--launches", default="plain", help="plain,dependent")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--exhaustive-budget", default="600s")
    parser.add_argument("--schedules", type=int, help="of a µGraph that the cost model puts forward")
    parser.add_argument("--top", type=int, default=12, help="candidates kept in the output")
    parser.add_argument("--out")
    parser.add_argument("--limit-s", type=float, default=1e9, help="start no further run after this many seconds")
    arguments = parser.parse_args()
    began, rows = time.time(), []
    for text in arguments.shapes.split(";"):
        fields = text.split(",")
        shape = (*map(int, fields[:3]), fields[3] if len(fields) > 3 else "bf16")
        for launch in arguments.launches.split(","):
            for strategy in arguments.strategies.split(","):
                if time.time() - began > arguments.limit_s:
                    print("the time limit left out", shape, launch, strategy, flush=True)
                    continue
                row = run(arguments, shape, strategy, launch)
                rows.append(row)
                name = "x".join(map(str, shape[:3])) + " " + shape[3]
                if "failed" in row:
                    print(f"{name:24} {launch} {strategy}: FAILED {row['failed']}", flush=True)
                    continue
                print(f"{name:24} {launch:9} {strategy:10} {row['time_us']:9.2f} us  floor {row['floor_us']:8.2f} ({row['time_us'] / row['floor_us']:.2f})  "
                      f"unfused {row['reference_us']:8.2f}  {row['search']['compiled']} compiled {row['search']['measured']} timed  {row['seconds']:.0f} s "
                      f"{ {s: t for s, t in row['steps'].items() if t >= 1} }  {row['schedule']}", flush=True)
                if arguments.out:
                    Path(arguments.out).write_text(json.dumps(rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
