#!/usr/bin/env bash
# Prints the root of the CUDA toolkit to use: CUDA_HOME, then /usr/local/cuda, then the one
# nvcc belongs to, then .deps/cuda (PyPI wheels). A root counts when it has the headers and
# NVRTC of CUDA 12 or later. Exit 1 without output where there is none.
# TENON_NO_SYSTEM_CUDA=1 leaves only .deps/cuda.
set -euo pipefail
root_dir=$(cd "$(dirname "$0")/.." && pwd)

usable() {
  local root=$1 header version
  for header in cuda.h nvrtc.h cublasLt.h; do
    [ -r "$root/include/$header" ] || return 1
  done
  version=$(awk '/^#define CUDA_VERSION /{print $3; exit}' "$root/include/cuda.h")
  [ "${version:-0}" -ge 12000 ] || return 1
  compgen -G "$root/lib64/libnvrtc.so*" >/dev/null || compgen -G "$root/lib/libnvrtc.so*" >/dev/null
}

candidates=()
if [ -z "${TENON_NO_SYSTEM_CUDA:-}" ]; then
  [ -n "${CUDA_HOME:-}" ] && candidates+=("$CUDA_HOME")
  candidates+=(/usr/local/cuda)
  if nvcc=$(command -v nvcc); then
    candidates+=("$(dirname "$(dirname "$(readlink -f "$nvcc")")")")
  fi
fi
candidates+=("$root_dir/.deps/cuda")
for candidate in "${candidates[@]}"; do
  if usable "$candidate"; then
    echo "$candidate"
    exit 0
  fi
done
exit 1
