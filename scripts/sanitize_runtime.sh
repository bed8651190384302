#!/usr/bin/env bash
# sanitize_runtime.sh [address|thread|valgrind …]: the host tests of ir, cache and runtime under AddressSanitizer
# with UBSan, the concurrent ones for 30 s under ThreadSanitizer, and the runtime's under valgrind; all three
# when none is named. Builds of their own, in build-asan, build-tsan and BUILD (default build).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
jobs=${JOBS:-$(nproc)}
which=${*:-address thread valgrind}

# configured FOLDER FLAGS: the folders below the optimizer, with tests.
configured() {
  local launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  mkdir -p "$1"
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTENON_QUICK_BUILD=ON -DTENON_WERROR=OFF -DTENON_ONLY="ir;cache;runtime" \
    -DTENON_EXAMPLES=OFF "${launcher[@]}" -DCMAKE_CXX_FLAGS="-O1 -g1 $2" -DCMAKE_C_FLAGS="-O1 -g1 $2" >"$1/configure.log" 2>&1 || {
    cat "$1/configure.log"
    return 1
  }
}

# The sanitizers' dlopen does not see a program's own search path, where the stand-in driver is; only its test
# may find that one.
driver_of() { case $1 in *launch_path_test) echo "$PWD/$2/tests/runtime/fake_driver" ;; esac; }

for sanitizer in $which; do
  case $sanitizer in
    address)
      configured build-asan "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
      nice cmake --build build-asan --parallel "$jobs" --target runtime_test launch_path_test tenon_cache_tests
      for test in runtime/runtime_test runtime/launch_path_test cache/tenon_cache_tests; do
        ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
          LD_LIBRARY_PATH=$(driver_of "$test" build-asan) TENON_CYCLES="${TENON_CYCLES:-2000}" "build-asan/tests/$test" --gtest_brief=1
      done
      ;;
    thread)
      # TBB is not instrumented: what happens inside it is its business, not ours.
      configured build-tsan "-fsanitize=thread -Wno-tsan"
      nice cmake --build build-tsan --parallel "$jobs" --target runtime_test launch_path_test
      printf 'called_from_lib:libtbb.so\nrace:tbb::\n' >build-tsan/suppressions
      for test in runtime_test:'Dispatch.SixteenThreads:HostExecutable.*' launch_path_test:'*'; do
        TSAN_OPTIONS="suppressions=$PWD/build-tsan/suppressions halt_on_error=1" TENON_SOAK_SECONDS="${TENON_SOAK_SECONDS:-30}" \
          LD_LIBRARY_PATH=$(driver_of "${test%%:*}" build-tsan) "build-tsan/tests/runtime/${test%%:*}" --gtest_brief=1 --gtest_filter="${test#*:}"
      done
      ;;
    valgrind)
      # valgrind has no AVX-512; the host engine then takes another instruction set.
      TENON_CYCLES=20 TENON_SOAK_SECONDS=1 valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        "$build/tests/runtime/runtime_test" --gtest_brief=1 --gtest_filter='Dispatch.*:CApi.*:Devices.*:HostExecutable.*-*InAnyOrder:*EveryM'
      ;;
    *)
      echo "sanitize_runtime: '$sanitizer' is unknown; accepted: address, thread, valgrind" >&2
      exit 2
      ;;
  esac
  echo "sanitize_runtime: $sanitizer passed"
done
