#!/usr/bin/env bash
# Sees to what Tenon is built with: Debian packages of the groups named (default: build) and
# a CUDA toolkit. As root on Debian it installs what is missing; as another user it says in one
# sentence what to install. Does nothing, quickly, when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# group NAME: the packages under [NAME] in scripts/debian-packages.txt.
group() {
  awk -v want="[$1]" '/^\[/ {on = ($0 == want); next} on && NF && !/^#/ {print $1}' \
    scripts/debian-packages.txt
}

# need GROUP …: installs the missing packages of these groups, or says which they are.
need() {
  local packages missing=() package
  packages=$(for name in "$@"; do group "$name"; done)
  if [ -z "$packages" ]; then
    echo "deps: group is '$*'; accepted: $(grep -o '^\[[a-z]*\]' scripts/debian-packages.txt | tr -d '[]' | paste -sd' ')" >&2
    exit 2
  fi
  if ! command -v dpkg-query >/dev/null; then
    # Not Debian: CMake names what it does not find.
    return 0
  fi
  local installed
  # shellcheck disable=SC2086
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $packages 2>/dev/null || true)
  for package in $packages; do
    grep -qx "$package installed" <<<"$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if [ "$(id -u)" != 0 ]; then
    echo "deps: these Debian packages are missing; install them with: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 3
  fi
  echo "deps: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # The package lists may be absent or old: try as it is, then with fresh ones.
  apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
    apt-get update -q >/dev/null
    apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
  }
}

need "${@:-build}"
cuda=$(scripts/find_cuda.sh || true)
if [ -z "$cuda" ] || [ "$cuda" = "$PWD/.deps/cuda" ]; then
  if ! scripts/cuda_wheels.sh --check; then
    if ! python3 -m pip --version >/dev/null 2>&1 && ! /usr/bin/python3 -m pip --version >/dev/null 2>&1; then
      need wheels
    fi
    scripts/cuda_wheels.sh
  fi
  if ! cuda=$(scripts/find_cuda.sh); then
    echo "deps: no CUDA toolkit was found and .deps/cuda is not usable; set CUDA_HOME or remove .deps and run make deps again" >&2
    exit 3
  fi
fi
echo "deps: CUDA at $cuda"
