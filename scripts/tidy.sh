#!/usr/bin/env bash
# clang-tidy over the .cpp files that differ from the commit given (default: HEAD), or over
# all with --all. Needs a configured build folder (BUILD, default build).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
if [ "${1:-}" = --all ]; then
  files=$(scripts/sources.sh | grep '\.cpp$' || true)
else
  files=$({ git diff --name-only --diff-filter=d "${1:-HEAD}" -- '*.cpp'; git ls-files --others --exclude-standard -- '*.cpp'; } | sort -u)
fi
tool=$(command -v clang-tidy-14 || command -v clang-tidy) || {
  echo "tidy: clang-tidy is missing; install the Debian package clang-tidy-14" >&2
  exit 3
}
# Files that the build does not compile have no flags to be checked with.
known=$(python3 -c 'import json, os, sys; print("\n".join(os.path.relpath(e["file"]) for e in json.load(open(sys.argv[1]))))' "$build/compile_commands.json" | sort -u)
files=$(comm -12 <(sort -u <<<"$files") <(echo "$known"))
if [ -z "$files" ]; then
  echo "tidy: nothing to check"
  exit 0
fi
xargs -d '\n' -n 1 -P "${JOBS:-$(nproc)}" "$tool" -p "$build" --quiet \
  --extra-arg=-Wno-unknown-warning-option --warnings-as-errors='*' <<<"$files"
