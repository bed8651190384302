#!/usr/bin/env bash
# install_test.sh BUILD SOURCE DATABASE PACK: installs into a folder, moves it, and builds and runs the
# examples from there through find_package and through pkg-config; the Python package from there too. The
# database and the pack hold rmsnorm_linear at k=48, n=40 in fp32.
set -euo pipefail
build=$1 source=$2 database=$3 pack=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" >"$work/install.log" || {
  cat "$work/install.log"
  exit 1
}
mv "$work/first" "$work/prefix" # what is installed may be moved
prefix=$work/prefix
"$prefix/bin/tenon" version

cp -r "$source/tests/install/consumer" "$work/source"
cp "$pack" "$work/source/kernels.pack" # beside its CMakeLists.txt, which names it by that
cmake -S "$work/source" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DPACK=kernels.pack \
  -DEXAMPLES="$source/examples" >"$work/configure.log" || {
  cat "$work/configure.log"
  exit 1
}
cmake --build "$work/consumer" >"$work/build.log" 2>&1 || {
  cat "$work/build.log"
  exit 1
}
"$work/consumer/c_api" "$database" 48 40
"$work/consumer/embedded_pack" 48 40

if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tenon.pc)")
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046
  cc "$source/examples/c_api.c" -o "$work/by_pkg_config" $(pkg-config --cflags --libs tenon) -lm
  LD_LIBRARY_PATH=$(pkg-config --variable=libdir tenon) "$work/by_pkg_config" "$database" 48 40
else
  echo "pkg-config is not installed: its file was not tried"
fi

# The optimizer's symbols are not in the runtime, nor Z3.
library=$(find "$prefix" -name 'libtenon_runtime.so.*.*')
if nm -DC "$library" | grep -E 'Z3_|tenon::(search|optimizer|verifier|codegen)::'; then
  echo "the runtime library has symbols of the optimizer"
  exit 1
fi
PYTHONPATH=$prefix/lib/python3/dist-packages TENON_LIBRARY=$library PYTHONDONTWRITEBYTECODE=1 \
  python3 -c "import tenon; print('tenon', tenon.__version__, 'for Python'); tenon.Library('$database', 'host')"
