#!/usr/bin/env bash
# Formats the C++ and CUDA sources with clang-format 14; with --check only says which are not
# formatted, and fails when there are any.
set -euo pipefail
cd "$(dirname "$0")/.."
# Other versions break lines differently, so the version is pinned.
tool=""
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
    tool=$candidate
    break
  fi
done
if [ -z "$tool" ]; then
  echo "format: clang-format 14 is missing; install the Debian package clang-format-14" >&2
  exit 3
fi
if [ "${1:-}" = --check ]; then
  scripts/sources.sh | xargs -r -d '\n' "$tool" --dry-run --Werror
  echo "format: all $(scripts/sources.sh | wc -l) sources are formatted"
else
  scripts/sources.sh | xargs -r -d '\n' "$tool" -i
fi
