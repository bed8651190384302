#!/usr/bin/env bash
# wheel.sh [BUILD [FOLDER]]: the wheel of the Python package with libtenon_runtime inside, in FOLDER (default:
# BUILD/wheel). `pip install` of it needs nothing else; the library uses the system's SQLite and TBB.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
folder=$(realpath -m "${2:-$build/wheel}")
library=$build/runtime/libtenon_runtime.so.1
[ -e "$library" ] || {
  echo "wheel: $library does not exist; run make build" >&2
  exit 2
}
python=python3
$python -c 'import setuptools, wheel' 2>/dev/null || python=/usr/bin/python3
$python -c 'import setuptools, wheel' 2>/dev/null || {
  echo "wheel: setuptools or wheel is missing; install the Debian packages python3-setuptools and python3-wheel" >&2
  exit 3
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r python/. "$work/"
find "$work" -name __pycache__ -prune -exec rm -rf {} +
mkdir -p "$work/tenon/_lib" "$folder"
cp -L "$library" "$work/tenon/_lib/"
strip --strip-unneeded "$work/tenon/_lib/libtenon_runtime.so.1"
version=$(sed -n 's/^project(tenon VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
(cd "$work" && TENON_VERSION=$version $python setup.py -q bdist_wheel --dist-dir "$folder" >"$work/log" 2>&1) || {
  cat "$work/log" >&2
  exit 1
}
ls "$folder"/tenon_runtime-"$version"-*.whl
