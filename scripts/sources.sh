#!/usr/bin/env bash
# Prints the C++ and CUDA files of the checkout, one a line, the ignored ones left out.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files --cached --others --exclude-standard -- \
  '*.h' '*.hpp' '*.cpp' '*.cu' '*.cuh' | while read -r file; do [ -e "$file" ] && echo "$file"; done | sort -u
