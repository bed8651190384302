#!/usr/bin/env bash
# gpu_sanitize.sh [BUNDLE] [FILTER]: runs a selection of the GPU tests (a GoogleTest filter; the
# sanitizer slows them down a hundredfold) under each tool of compute-sanitizer.
# TENON_SANITIZE_TOOLS names fewer tools.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "${1:-}" ]; then
  bundle=$1
elif [ -d "$here/bin" ]; then
  bundle=$here
else
  bundle=$here/../.bundle
fi
filter=${2:-${TENON_SANITIZE_FILTER:-*KernelFamilies*}}
tools=${TENON_SANITIZE_TOOLS:-memcheck racecheck initcheck synccheck}
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) || {
  echo "gpu_sanitize: compute-sanitizer is missing; it comes with the CUDA toolkit" >&2
  exit 3
}
# check TESTS: runs the selected tests of one program under each tool.
failures=0 checked=0
check() {
  local tests=$1 selected tool log
  selected=$("$tests" --gtest_list_tests --gtest_filter="$filter" | grep -c '^  ' || true)
  [ "$selected" -gt 0 ] || return 0
  for tool in $tools; do
    echo "== $tool over $selected tests of $(basename "$tests")"
    log=$(mktemp)
    checked=$((checked + 1))
    # A skipped test has checked nothing: it counts as a failure here.
    # Errors of the driver's own calls are not the tools' business: the library asks it for the
    # parameters of a kernel until it says that there is none.
    local flags=()
    [ "$tool" = memcheck ] && flags=(--report-api-errors no)
    # racecheck follows the lane that arrives at an mbarrier for its warp, so under it every lane arrives.
    local racecheck=
    [ "$tool" = racecheck ] && racecheck=1
    if ! TENON_RACECHECK=$racecheck "$sanitizer" --tool "$tool" ${flags[@]+"${flags[@]}"} --error-exitcode 9 \
      --kernel-name-exclude kernel_substring=cublas "$tests" --gtest_filter="$filter" \
      --gtest_brief=1 >"$log" 2>&1 || grep -q SKIPPED "$log"; then
      failures=$((failures + 1))
      tail -n 60 "$log"
    else
      grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|PASSED' "$log"
    fi
    rm -f "$log"
  done
}
for tests in "$bundle"/bin/*gpu_test*; do
  [ -x "$tests" ] && check "$tests"
done
if [ "$checked" -eq 0 ]; then
  echo "gpu_sanitize: the filter '$filter' selects no test" >&2
  exit 2
fi
[ "$failures" -eq 0 ] || {
  echo "gpu_sanitize: $failures of $checked runs found problems"
  exit 1
}
echo "gpu_sanitize: nothing found"
