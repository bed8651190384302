#!/usr/bin/env bash
# package_test.sh BUILD SOURCE DATABASE: the wheel holds the package and the library and works from where it is
# unpacked; the .deb holds what an install does and names what it depends on.
set -euo pipefail
build=$1 source=$2 database=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wheel=$("$source/scripts/wheel.sh" "$build" "$work/wheel")
case $(basename "$wheel") in
  tenon_runtime-*-py3-none-linux_*.whl) ;;
  *)
    echo "the wheel's name is $wheel"
    exit 1
    ;;
esac
python3 -m zipfile -e "$wheel" "$work/site"
(cd "$work" && env -u TENON_LIBRARY PYTHONPATH="$work/site" python3 -c "
import tenon
assert tenon._native.lib._name.startswith('$work/site'), tenon._native.lib._name
tenon.Library('$database', 'host')
print('wheel: tenon', tenon.__version__)")

cd "$build"
cpack -G DEB -B "$work/deb" >"$work/log" 2>&1 || {
  cat "$work/log"
  exit 1
}
dpkg-deb -c "$work"/deb/*.deb >"$work/contents"
for file in usr/bin/tenon usr/lib/libtenon_runtime.so.1 usr/include/tenon/tenon.h usr/lib/cmake/tenon/tenonConfig.cmake \
  usr/lib/pkgconfig/tenon.pc usr/lib/python3/dist-packages/tenon/__init__.py; do
  grep -q "/$file\( \|$\)" "$work/contents" || {
    echo "the .deb lacks $file"
    exit 1
  }
done
dpkg-deb -f "$work"/deb/*.deb Depends | tee "$work/depends"
grep -q libsqlite3-0 "$work/depends"
