#!/usr/bin/env bash
# test.sh BUILD [ctest arguments]: runs the tests of a build folder and says how many passed,
# failed and were skipped, those for a GPU apart. Fails when a test failed or none ran.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
shift || true
results=$build/tests.xml
rm -f "$results"
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "${TEST_JOBS:-2}" \
  --output-junit "$PWD/$results" "$@" || status=$?
[ -f "$results" ] || exit "$((status ? status : 1))"
gpu=$(ctest --test-dir "$build" --show-only=json-v1 -L '^gpu$')
python3 scripts/test_summary.py "$results" <(echo "$gpu") | tee "$build/tests.summary"
exit "$status"
