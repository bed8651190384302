#!/usr/bin/env bash
# gpu_sanitize.sh [BUNDLE] [FILTER]: runs a selection of the GPU tests (a GoogleTest filter; the
# sanitizer slows them down a hundredfold) under each tool of compute-sanitizer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${1:-}" ]; then
  bundle=$1
elif [ -d "$here/bin" ]; then
  bundle=$here
else
  bundle=$here/../.bundle
fi
filter=${2:-${TENON_SANITIZE_FILTER:-*Sanitize*}}
tests=$bundle/bin/tenon_gpu_tests
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) || {
  echo "gpu_sanitize: compute-sanitizer is missing; it comes with the CUDA toolkit" >&2
  exit 3
}
selected=$("$tests" --gtest_list_tests --gtest_filter="$filter" | grep -c '^  ' || true)
if [ "$selected" -eq 0 ]; then
  echo "gpu_sanitize: the filter '$filter' selects no test" >&2
  exit 2
fi
failures=0
for tool in memcheck racecheck initcheck synccheck; do
  echo "== $tool over $selected tests"
  log=$(mktemp)
  # A skipped test has checked nothing: it counts as a failure here.
  if ! "$sanitizer" --tool "$tool" --error-exitcode 9 --kernel-name-exclude kernel_substring=cublas \
    "$tests" --gtest_filter="$filter" --gtest_brief=1 >"$log" 2>&1 || grep -q SKIPPED "$log"; then
    failures=$((failures + 1))
    tail -n 60 "$log"
  else
    grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|PASSED' "$log"
  fi
  rm -f "$log"
done
[ "$failures" -eq 0 ] || {
  echo "gpu_sanitize: $failures of 4 tools found problems"
  exit 1
}
echo "gpu_sanitize: nothing found"
