#!/usr/bin/env bash
# Downloads the pinned CUDA wheels of scripts/cuda-wheels.txt and unpacks their headers and
# shared libraries into .deps/cuda/{include,lib}. Does nothing when they are there already;
# with --check only says, by its exit code, whether they are.
set -euo pipefail
cd "$(dirname "$0")/.."
self=scripts/cuda_wheels.sh
pins=scripts/cuda-wheels.txt
target=.deps/cuda
stamp=$(cat "$pins" "$self" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$target/.pins" 2>/dev/null)" = "$stamp" ]; then
  exit 0
fi
if [ "${1:-}" = --check ]; then
  exit 1
fi
python=""
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -m pip --version >/dev/null 2>&1; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "cuda_wheels: pip is missing; install the Debian package python3-pip" >&2
  exit 3
fi
echo "cuda_wheels: fetching CUDA 13.0 (NVRTC, cuBLAS, headers) from PyPI into $target"
mkdir -p .deps
work=$(mktemp -d .deps/wheels.XXXXXX)
trap 'rm -rf "$work"' EXIT
"$python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
  --only-binary=:all: --require-hashes --dest "$work" --requirement "$pins"
# Built aside and moved into place, so that an interrupted run leaves nothing half-made.
"$python" - "$work" "$work/cuda" <<'PYTHON'
import pathlib, shutil, sys, zipfile

wheels, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
for wheel in sorted(wheels.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            # nvidia/cu13/{include,lib}/…; of the libraries only those that Tenon opens.
            parts = pathlib.PurePosixPath(entry.filename).parts
            if entry.is_dir() or len(parts) < 4 or parts[0] != "nvidia" or ".." in parts:
                continue
            opened = parts[2] == "lib" and parts[-1].startswith(
                ("libnvrtc.so", "libnvrtc-builtins.so", "libcublasLt.so"))
            if parts[2] != "include" and not opened:
                continue
            path = target.joinpath(*parts[2:])
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, open(path, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    wheel.unlink()
PYTHON
ln -s lib "$work/cuda/lib64"
echo "$stamp" >"$work/cuda/.pins"
rm -rf "$target"
mv "$work/cuda" "$target"
