#!/usr/bin/env bash
# sanitize.sh [address|thread|valgrind …]: every host test under AddressSanitizer with UBSan, the runtime's concurrent
# ones for 30 s under ThreadSanitizer, and the runtime's under valgrind; all three when none is named. Builds of their own
# (ASAN_BUILD, TSAN_BUILD; default build-asan, build-tsan) and BUILD (default build). The first takes about an hour on two cores, most of it
# compilation. It goes through all programs and names those that failed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
jobs=${JOBS:-$(nproc)}
which=${*:-address thread valgrind}

asan=$(realpath -m "${ASAN_BUILD:-build-asan}")
tsan=$(realpath -m "${TSAN_BUILD:-build-tsan}")

# configured FOLDER FLAGS [CMAKE OPTION …]
configured() {
  local launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  mkdir -p "$1"
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTENON_QUICK_BUILD=ON -DTENON_WERROR=OFF \
    "${@:3}" "${launcher[@]}" -DCMAKE_CXX_FLAGS="-O1 -g1 $2" -DCMAKE_C_FLAGS="-O1 -g1 $2" >"$1/configure.log" 2>&1 || {
    cat "$1/configure.log"
    return 1
  }
}

# The sanitizers' dlopen does not see a program's own search path, where the stand-in driver is; only its test
# may find that one.
driver_of() { case $1 in *launch_path_test) echo "$2/tests/runtime/fake_driver" ;; esac; }

# under NAME COMMAND …: with the sanitizers' options; a failure is named and the next goes on.
under() {
  local name=$1 begin=$SECONDS log=$asan/sanitized-$1.log
  if ASAN_OPTIONS=allocator_may_return_null=1:strict_string_checks=1:detect_stack_use_after_return=1:${ASAN_MORE:-detect_leaks=1} UBSAN_OPTIONS=print_stacktrace=1 \
    nice "${@:2}" >"$log" 2>&1; then
    echo "sanitize: $name: clean, $((SECONDS - begin)) s"
  else
    failed+=("$name")
    echo "sanitize: $name FAILED:"
    tail -n 60 "$log"
  fi
}

# Left out: tenon_gpu_tests, which has nothing to do here; the tests of install and packages, whose consumers are built
# without sanitizers; SharedLibrary, which compares what the library links; the examples and benchmarks.
under_address() {
  local program failed=()
  # shellcheck disable=SC2086
  for program in $programs; do
    case $program in
      */fuzz_test | */*_test | */*_tests)
        LD_LIBRARY_PATH=$(driver_of "$program" "$asan") TENON_CYCLES="${TENON_CYCLES:-2000}" under "$(basename "$program")" "$asan/$program" --gtest_brief=1
        ;;
      */fuzz_*) under "$(basename "$program")" "$asan/$program" "tests/fuzz/corpus/${program##*/fuzz_}" ;;
    esac
  done
  under full_disk_test tests/cli/full_disk_test.py "$asan/cli/tenon" "$asan/full_disk"
  local python
  for python in python3 /usr/bin/python3; do "$python" -c 'import numpy' 2>/dev/null && break; done
  # Python itself is not instrumented, and does not free what it has at its end. libasan looks for __cxa_throw when
  # it is loaded, so the C++ library has to be there by then.
  mkdir -p "$asan/python"
  under make_database tests/python/make_database.sh "$asan/cli/tenon" "$asan/tests/python/tenon_test_pack" "$asan/python"
  ASAN_MORE=detect_leaks=0 PYTHONPATH=python TENON_LIBRARY=$asan/runtime/libtenon_runtime.so TENON_COMMAND=$asan/cli/tenon \
    TENON_TEST_DB=$asan/python/tuning.db TENON_TEST_PACK=$asan/python/pack.db PYTHONDONTWRITEBYTECODE=1 \
    under test_tenon env LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)" "$python" tests/python/test_tenon.py
  [ ${#failed[@]} -eq 0 ] || {
    echo "sanitize: address FAILED: ${failed[*]}" >&2
    return 1
  }
}

for sanitizer in $which; do
  case $sanitizer in
    address)
      configured "$asan" "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
      # Everything but what needs a GPU (tenon_gpu_tests) or times things (bench).
      programs=$(ninja -C "$asan" -t targets all | sed -n 's/^\(tests\/[a-z_]*\/[a-z_]*\): CXX_EXECUTABLE_LINKER.*/\1/p' | grep -vE 'tenon_gpu_tests|_soak$')
      # shellcheck disable=SC2086
      nice cmake --build "$asan" --parallel "$jobs" --target $programs cli/tenon examples/run_stored tenon_runtime_shared
      under_address
      ;;
    thread)
      # TBB is not instrumented: what happens inside it is its business, not ours.
      configured "$tsan" "-fsanitize=thread -Wno-tsan" "-DTENON_ONLY=ir;cache;runtime" -DTENON_EXAMPLES=OFF
      nice cmake --build "$tsan" --parallel "$jobs" --target runtime_test launch_path_test
      printf 'called_from_lib:libtbb.so\nrace:tbb::\n' >"$tsan/suppressions"
      for test in runtime_test:'Dispatch.SixteenThreads:HostExecutable.*' launch_path_test:'*'; do
        TSAN_OPTIONS="suppressions=$tsan/suppressions halt_on_error=1" TENON_SOAK_SECONDS="${TENON_SOAK_SECONDS:-30}" \
          LD_LIBRARY_PATH=$(driver_of "${test%%:*}" "$tsan") "$tsan/tests/runtime/${test%%:*}" --gtest_brief=1 --gtest_filter="${test#*:}"
      done
      ;;
    valgrind)
      scripts/deps.sh build sanitize >/dev/null
      # valgrind has no AVX-512; the host engine then takes another instruction set.
      TENON_CYCLES=20 TENON_SOAK_SECONDS=1 valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        "$build/tests/runtime/runtime_test" --gtest_brief=1 --gtest_filter='Dispatch.*:CApi.*:Devices.*:HostExecutable.*-*InAnyOrder:*EveryM'
      ;;
    *)
      echo "sanitize: '$sanitizer' is unknown; accepted: address, thread, valgrind" >&2
      exit 2
      ;;
  esac
  echo "sanitize: $sanitizer passed"
done
