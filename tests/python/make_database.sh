#!/usr/bin/env bash
# make_database.sh TENON PACK FOLDER: tuning.db and pack.db with what the Python tests use.
set -euo pipefail
tenon=$1
pack=$2
folder=$3
rm -f "$folder"/tuning.db* "$folder"/pack.db
for m in 1 16; do
  for dtype in fp32 bf16; do
    "$tenon" optimize rmsnorm_linear --m $m --k 48 --n 40 --dtype $dtype --device host --db "$folder/tuning.db" --budget 3s >/dev/null
  done
done
"$pack" "$folder/tuning.db" "$folder/pack.db"
