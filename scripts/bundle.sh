#!/usr/bin/env bash
# bundle.sh BUILD [FOLDER]: a relocatable folder (default .bundle) that runs on another Linux with
# a newer glibc and none of the packages: bin/ holds the tenon command, its worker and the GPU tests,
# stripped, over one libtenon.so; lib/ that, libtenon_runtime.so and the shared libraries they need, without
# glibc's own and without CUDA's, which are opened at run time; python/ the package, bench/ and
# examples/ the Python programs.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
bundle=${2:-.bundle}
limit_mb=40

for tool in patchelf strip ldd; do
  command -v "$tool" >/dev/null || {
    echo "bundle: $tool is missing; install the Debian packages binutils and patchelf" >&2
    exit 3
  }
done
[ -x "$build/cli/tenon" ] || {
  echo "bundle: $build/cli/tenon does not exist; run make build" >&2
  exit 2
}

is_program() { [ -f "$1" ] && [ -x "$1" ] && [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }

# The programs over one shared library (cmake/bundle.cmake).
cmake --build "$build" --target bundle_programs >"$build/bundle.log" 2>&1 || {
  tail -n 30 "$build/bundle.log" >&2
  exit 1
}
programs=()
for candidate in "$build"/bundle/*; do
  case $candidate in *.so*) continue ;; esac
  if is_program "$candidate"; then programs+=("$candidate"); fi
done

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib"
for program in "${programs[@]}"; do
  target=$bundle/bin/$(basename "$program")
  cp "$program" "$target"
  strip "$target"
  patchelf --set-rpath '$ORIGIN/../lib' "$target"
done

runtime=$build/runtime/libtenon_runtime.so
if [ -e "$runtime" ]; then
  target=$bundle/lib/$(basename "$runtime")
  cp "$runtime" "$target"
  strip --strip-unneeded "$target"
  patchelf --set-rpath '$ORIGIN' "$target"
  programs+=("$runtime")
fi

# The closure of what they link, as ldd sees it: name => path.
ldd "${programs[@]}" | awk '/=> \//{print $1, $3} /not found/{print "missing", $1}' | sort -u |
  while read -r name path; do
    case $name in
      missing)
        echo "bundle: $path is not found" >&2
        exit 1
        ;;
      libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | ld-linux* | libresolv.so.*) continue ;;
      libcuda.so.* | libnvrtc* | libcublas* | libcudart.so.*) continue ;;
    esac
    cp --dereference "$path" "$bundle/lib/$name"
    strip --strip-unneeded "$bundle/lib/$name"
    patchelf --set-rpath '$ORIGIN' "$bundle/lib/$name"
  done
cp scripts/gpu_tests.sh scripts/gpu_sanitize.sh scripts/gpu_runtime.sh scripts/gpu_two.py "$bundle/"
# Python programs find bin/ and lib/ beside their folder.
mkdir -p "$bundle/python" "$bundle/bench" "$bundle/examples"
(cd python && find tenon -name '*.py' -o -name py.typed) | while read -r file; do
  install -D -m 644 "python/$file" "$bundle/python/$file"
done
cp bench/*.py "$bundle/bench/"
cp examples/*.py "$bundle/examples/"

# Whatever it loads now must come from the bundle, or be glibc's.
for program in "$bundle"/bin/*; do
  strays=$(ldd "$program" | awk '/=> \//{print $3}' | grep -v "^$(realpath "$bundle")/" |
    grep -vE '/(libc|libm|libpthread|libdl|librt|libresolv)\.so\.[0-9]+$' || true)
  if [ -n "$strays" ]; then
    echo "bundle: $program loads from outside: $strays" >&2
    exit 1
  fi
done
"$bundle/bin/tenon" version >/dev/null

bytes=$(du -sb "$bundle" | cut -f1)
printf 'bundle: %s: %s programs, %s libraries, %.1f MB\n' "$bundle" "$(ls "$bundle/bin" | wc -l)" \
  "$(ls "$bundle/lib" | wc -l)" "$(awk "BEGIN {print $bytes / 1e6}")"
if [ "$bytes" -gt $((limit_mb * 1000000)) ]; then
  echo "bundle: it is larger than $limit_mb MB:" >&2
  du -ab "$bundle" | sort -rn | head -n 10 >&2
  exit 1
fi
