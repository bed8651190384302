#!/usr/bin/env bash
# soak.sh BUILD [SECONDS]: builds the fuzzers with clang and runs each for ten minutes (or SECONDS)
# from the corpus in tests/fuzz/corpus. Fails when one finds a crash, a hang of 10 s or 2 GB of memory;
# the input is then in BUILD/found.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/fuzz}
seconds=${2:-600}
scripts/deps.sh build fuzz >/dev/null
flags="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++-14 \
  -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_FLAGS="$flags" -DTENON_WERROR=OFF -DTENON_EXAMPLES=OFF \
  -DTENON_FUZZ=ON "-DTENON_ONLY=ir;cache;fuzz" >"$build.log" 2>&1 || {
  cat "$build.log"
  exit 1
}
names="import text workloads database"
# shellcheck disable=SC2086
cmake --build "$build" --target $(printf 'fuzz_%s ' $names)
mkdir -p "$build/found"
status=0
for name in $names; do
  mkdir -p "$build/corpus/$name"
  echo "fuzz: $name for $seconds s"
  "$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len=65536 -print_final_stats=1 -verbosity=0 -print_funcs=0 -artifact_prefix="$build/found/$name-" \
    "$build/corpus/$name" "tests/fuzz/corpus/$name" || status=1
done
[ "$status" = 0 ] && echo "fuzz: holds: no crash, no hang, no more memory than allowed"
exit "$status"
