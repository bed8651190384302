#!/usr/bin/env bash
# make_database.sh TENON PACK FOLDER: tuning.db and pack.db with what the Python tests use.
set -euo pipefail
tenon=$1
pack=$2
folder=$3
rm -f "$folder"/tuning.db* "$folder"/pack.db

# tune PROGRAM M N DTYPE [OPTION …]: with little time first, with more where a busy machine found nothing in it.
tune() {
  for budget in 3s 20s 60s; do
    if "$tenon" optimize "$1" --m "$2" --k 48 --n "$3" --dtype "$4" "${@:5}" --device host --db "$folder/tuning.db" --budget $budget \
      >"$folder/tune.log" 2>&1; then return 0; fi
  done
  cat "$folder/tune.log"
  return 1
}
for dtype in fp32 bf16; do
  tune rmsnorm_linear 1 40 $dtype
  tune rmsnorm_linear 16 40 $dtype
done
tune rmsnorm_linear 4 60 bf16
# Weights as nn.Linear keeps them, and in no other way.
tune rmsnorm_linear 4 36 fp32 --layout w=n,k
tune rmsnorm_linear 4 36 bf16 --layout w=n,k
tune rmsnorm_linear 16 40 fp32 --keep-weights
tune rmsnorm_linear 4 40 fp32 --row-stride x=56 --row-stride y=44
tune rmsnorm_gated_mlp_in 4 20 bf16
tune layernorm_linear 4 40 bf16
"$pack" "$folder/tuning.db" "$folder/pack.db"
