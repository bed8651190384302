#!/usr/bin/env bash
# gpu_tests.sh [BUNDLE]: on a machine with a GPU, runs the GPU tests of a bundle (default: the
# folder of this script, else .bundle) and the optimizations that must hold on a GPU: a stored
# winner that was measured, accepted, and is no slower than the unfused form of the same run.
# TENON_GPU_FILTER narrows the tests (a GoogleTest filter), TENON_GPU_BUDGET (60s) is an
# optimization's. Results go to the folder
# TENON_GPU_OUT where it is set.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${1:-}" ]; then
  bundle=$1
elif [ -d "$here/bin" ]; then
  bundle=$here
else
  bundle=$here/../.bundle
fi
out=${TENON_GPU_OUT:-$(mktemp -d)}
database=$out/gpu.db
failures=0

"$bundle/bin/tenon" version
"$bundle/bin/tenon" devices
for tests in "$bundle"/bin/*gpu_test*; do
  [ -x "$tests" ] || {
    echo "FAILED: the bundle has no GPU tests"
    failures=$((failures + 1))
    continue
  }
  echo "tests of $(basename "$tests")"
  "$tests" --gtest_brief=1 --gtest_filter="${TENON_GPU_FILTER:-*}" \
    --gtest_output="xml:$out/$(basename "$tests").xml" || failures=$((failures + 1))
done

# optimize M K N: optimizes, checks what --json says, and runs the stored kernel.
optimize() {
  local shape=(--m "$1" --k "$2" --n "$3") result=$out/optimize-$1x$2x$3.json
  echo "optimize rmsnorm_linear ${shape[*]} on cuda:0"
  if ! "$bundle/bin/tenon" optimize rmsnorm_linear "${shape[@]}" --device cuda:0 \
    --db "$database" --budget "${TENON_GPU_BUDGET:-60s}" --retune --json >"$result"; then
    echo "FAILED: optimize ended with an error" >&2
    return 1
  fi
  python3 - "$result" <<'PYTHON' || return 1
import json, sys

result = json.load(open(sys.argv[1]))
best = result["best"]
evidence = {name: best["evidence"][name]["verdict"] for name in ("random", "z3", "numeric")}
print(f"  {best['time_us']:.2f} us, unfused {best['reference_time_us']:.2f} us, evidence {evidence}, "
      f"{result['search']}, {result['stop_reason']}")
problems = []
if evidence["random"] != "pass" or evidence["numeric"] != "pass":
    problems.append("the winner's evidence is not complete")
if evidence["z3"] == "refuted":
    problems.append("Z3 refuted the winner")
if not 0 < best["time_us"] <= best["reference_time_us"]:
    problems.append("the winner is slower than the unfused form")
for problem in problems:
    print("FAILED:", problem)
sys.exit(bool(problems))
PYTHON
  "$bundle/bin/tenon" db best rmsnorm_linear "${shape[@]}" --device cuda:0 --db "$database" --json |
    python3 -c 'import json, sys; sys.exit(any(k["spill_bytes"] for k in json.load(sys.stdin)["kernels"]))' || {
    echo "FAILED: the winner spills registers" >&2
    return 1
  }
  "$bundle/bin/tenon" run rmsnorm_linear "${shape[@]}" --device cuda:0 --db "$database" || {
    echo "FAILED: run" >&2
    return 1
  }
}
optimize 16 4096 6144 || failures=$((failures + 1))
optimize 3 100 7 || failures=$((failures + 1))
"$bundle/bin/tenon" db ls --db "$database"
if [ "$failures" -gt 0 ]; then
  echo "gpu_tests: $failures parts failed"
  exit 1
fi
echo "gpu_tests: all parts passed"
