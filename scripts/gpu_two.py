#!/usr/bin/env python3
"""gpu_two.py [BUNDLE]: on a machine with two GPUs or more, from a bundle (default: the folder of this script, else .bundle):

  all         `tenon optimize --device all --workloads` for a minute: every GPU gets work, one database holds the results
  contention  another process keeps cuda:0 busy: measurements there are marked as disturbed and choose no winner without
              --force; cuda:1 goes on undisturbed; and when the other process has ended all is as before

In about three minutes. Each check prints PASS or FAIL; the exit code is 1 when one failed, 77 with fewer than two GPUs. Results go to
the folder $TENON_GPU_OUT. Variables: TENON_BUDGET (seconds of the list, 60). The other process multiplies matrices with
PyTorch, or where that is not installed launches a stored kernel over and over (`tenon run`)."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

here = Path(__file__).resolve().parent
bundle = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else here if (here / "bin").is_dir() else here.parent / ".bundle"
TENON = str(bundle / "bin" / "tenon")
out = Path(os.environ.get("TENON_GPU_OUT") or tempfile.mkdtemp())
BUDGET = float(os.environ.get("TENON_BUDGET", "60"))
SHAPES = [(16, 4096, 6144), (16, 4096, 4096), (64, 4096, 6144), (16, 2048, 8192), (1, 4096, 6144), (256, 4096, 4096)]
failures = []

BURN = """
import sys, torch
a = torch.randn(4096, 4096, device="cuda:0", dtype=torch.bfloat16)
b = torch.empty_like(a)
torch.mm(a, a, out=b); torch.cuda.synchronize()
print("burning", flush=True)
while True:
    for _ in range(100):
        torch.mm(a, a, out=b)
    torch.cuda.synchronize()
"""


def check(name, good, detail=""):
    print(f"{'PASS' if good else 'FAIL'} {name}{': ' + str(detail) if str(detail) else ''}", flush=True)
    if not good:
        failures.append(name)


def tenon(*arguments, timeout=600):
    """Exit code, what --json printed (None: nothing that is JSON) and the last line of stderr."""
    done = subprocess.run([TENON, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=timeout)
    try:
        result = json.loads(done.stdout)
    except ValueError:
        result = None
    return done.returncode, result, (done.stderr.strip().splitlines() or [""])[-1]


class Utilization(threading.Thread):
    """The highest load of each GPU that nvidia-smi shows; empty where there is none."""

    def __init__(self):
        super().__init__(daemon=True)
        self.highest, self._end = {}, threading.Event()

    def run(self):
        while not self._end.wait(0.5):
            try:
                text = subprocess.run(["nvidia-smi", "--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits"],
                                      capture_output=True, text=True, check=True, timeout=20).stdout
                for line in text.splitlines():
                    index, load = (int(f) for f in line.split(","))
                    self.highest[index] = max(load, self.highest.get(index, 0))
            except (OSError, ValueError, subprocess.SubprocessError):
                return

    def stop(self):
        self._end.set()
        self.join(30)
        return self.highest


def tune_on_all(gpus):
    workloads, database = out / "two.json", out / "two.db"
    workloads.write_text(json.dumps([{"program": "rmsnorm_linear", "m": m, "k": k, "n": n, "dtype": "bf16"} for m, k, n in SHAPES]))
    command = ("optimize", "--device", "all", "--workloads", workloads, "--db", database, "--budget", f"{BUDGET:g}s", "--json")
    load = Utilization()
    load.start()
    start = time.monotonic()
    code, result, said = tenon(*command)
    seconds = time.monotonic() - start
    highest = load.stop()
    check("all: ends with exit code 0", code == 0 and result is not None, f"exit {code} after {seconds:.0f} s; {said}")
    if result is None:
        return
    (out / "two-result.json").write_text(json.dumps(result, indent=1))
    check("all: within the budget", seconds <= 1.25 * BUDGET + 15, f"{seconds:.0f} s of {BUDGET:.0f}")
    check("all: every workload has a winner", result["found"] == result["total"] == len(SHAPES), f"{result['found']} of {result['total']}")
    served = {gpu: [w for w in result["workloads"] if w["device"] == gpu] for gpu in gpus}
    for gpu in gpus:
        measured = sum(w.get("search", {}).get("measured", 0) for w in served[gpu])
        check(f"all: {gpu} got work", len(served[gpu]) > 0 and measured > 0, f"{len(served[gpu])} workloads, {measured} candidates measured")
    if highest:
        check("all: every GPU was busy", all(highest.get(int(g.split(":")[1]), 0) > 0 for g in gpus), f"highest load in %: {highest}")
    else:
        print("note: nvidia-smi says nothing; the load was not looked at")
    for w in result["workloads"]:
        best = w.get("best")
        if best:
            evidence = {n: best["evidence"][n]["verdict"] for n in ("random", "numeric")}
            print(f"  {w['workload']['m']}x{w['workload']['k']}x{w['workload']['n']} on {w['device']}: {best['time_us']:.2f} us, "
                  f"unfused {best['reference_time_us']:.2f}, {best['kind']}, {evidence}")
            check("all: its winner is measured and accepted", best["kind"] == "measured" and set(evidence.values()) == {"pass"}, evidence)
    code, listed, said = tenon("db", "ls", "--json", "--db", database)
    plans = {p["plan"] for p in listed["plans"]} if listed else set()
    check("all: one database holds every winner", code == 0 and {w["best"]["id"] for w in result["workloads"] if w.get("best")} <= plans,
          f"{len(plans)} winners stored")
    code, state, said = tenon("db", "check", "--json", "--db", database)
    check("all: the database passes its check", code == 0 and state and not state["problems"], state["problems"] if state else said)
    start = time.monotonic()
    code, again, said = tenon(*command)
    check("all: the second time the database answers", code == 0 and again and all(w.get("from_database") for w in again["workloads"]),
          f"{time.monotonic() - start:.1f} s")


def burner():
    """A process that keeps cuda:0 busy, at work when this returns; and how it does it."""
    process = subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    if process.stdout.readline().strip() == "burning":
        return process, "PyTorch"
    process.wait()
    database = out / "burn.db"
    code, _, said = tenon("optimize", "rmsnorm_linear", "--m", 4096, "--k", 4096, "--n", 6144, "--device", "cuda:0", "--db", database, "--budget", "15s", "--json")
    if code != 0:
        raise RuntimeError(f"there is no PyTorch, and nothing to launch instead: {said}")
    loop = f'while :; do "{TENON}" run rmsnorm_linear --m 4096 --k 4096 --n 6144 --device cuda:0 --db "{database}"; done'
    process = subprocess.Popen(["bash", "-c", loop], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(3)
    return process, "tenon run"


def contention():
    shape = ("rmsnorm_linear", "--m", 16, "--k", 4096, "--n", 6144)
    optimize = lambda gpu, database, *more: tenon("optimize", *shape, "--device", gpu, "--db", out / database, "--budget", "10s", "--json", *more)
    process, how = burner()
    try:
        print(f"another process keeps cuda:0 busy ({how})", flush=True)
        code, result, said = optimize("cuda:0", "busy.db")
        notes = [n for n in result["notes"] if "disturbed" in n] if result else []
        check("contention: no winner without --force", code == 1 and result is not None and result["best"] is None, f"exit {code}; {said}")
        check("contention: and it is said why", any("--force" in n for n in notes), notes)
        code, listed, said = tenon("db", "ls", "--all", "--json", "--db", out / "busy.db")
        marked = [p["disturbance"] for p in listed["plans"] if p["disturbance"]] if listed else []
        check("contention: measurements are marked", len(marked) > 0, f"{len(marked)}, as '{marked[0] if marked else ''}'")
        check("contention: as another process's work", any("other process" in d for d in marked), sorted(set(marked))[:3])
        code, _, said = tenon("db", "best", *shape, "--device", "cuda:0", "--db", out / "busy.db")
        check("contention: the database answers nothing", code == 1, said)
        code, result, said = optimize("cuda:0", "busy.db", "--force")
        check("contention: a winner with --force", code == 0 and result is not None and result["best"] is not None, f"exit {code}; {said}")
        code, result, said = optimize("cuda:1", "other.db")
        check("contention: cuda:1 goes on undisturbed", code == 0 and result is not None and result["best"] is not None,
              f"exit {code}; {[n for n in result['notes'] if 'disturbed' in n] if result else said}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    time.sleep(2)
    code, result, said = optimize("cuda:0", "quiet.db")
    check("contention: a winner when it has ended", code == 0 and result is not None and result["best"] is not None,
          f"exit {code}; {[n for n in result['notes'] if 'disturbed' in n] if result else said}")


def main():
    out.mkdir(parents=True, exist_ok=True)
    code, found, said = tenon("devices", "--json")
    gpus = [d["id"] for d in found["devices"] if d["id"].startswith("cuda:")] if found else []
    print(f"{TENON}: {', '.join(gpus) or 'no GPU'}; results in {out}", flush=True)
    if len(gpus) < 2:
        print("SKIPPED: two GPUs are needed", said)
        return 77
    for name, part in (("all", lambda: tune_on_all(gpus)), ("contention", contention)):
        try:
            part()
        except Exception as error:  # the other part still runs
            check(f"{name}: runs to its end", False, f"{type(error).__name__}: {error}")
    print(f"gpu_two: FAILED: {len(failures)}: {'; '.join(failures)}" if failures else "gpu_two: all checks passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
