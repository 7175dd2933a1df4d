#!/usr/bin/env bash
# Plans every row of grid.txt and writes what measures them: OUT/NAME/ (a plan's folder each) and OUT/JOBS.txt for
# measure_many.py, first with real ranks, then each with a stand-in for rank 0.
#   validate/deepspeed/grid.sh OUT
#   ZPLAN=./zplan.sh GPUS=2xH200 MODEL=qwen3-1.7b SEQ_LEN=2048 GLOBAL_BATCH=16 GRID=validate/deepspeed/grid.txt
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${1:?where to write the plans}
mkdir -p "$out"
zplan=${ZPLAN:-$project/zplan.sh}
real=() stand_in=()

while read -r name fixed; do
  [[ -z $name || $name == \#* ]] && continue
  words=()
  for choice in $fixed; do
    words+=(--fix "$choice")
    [[ $choice == fused_loss=true ]] && words+=(--allow liger)
  done
  "$zplan" plan --model "${MODEL:-qwen3-1.7b}" --gpus "${GPUS:-2xH200}" --seq-len "${SEQ_LEN:-2048}" \
    --global-batch "${GLOBAL_BATCH:-16}" "${words[@]}" --out "$out/$name" >"$out/$name.txt" || {
    echo "grid.sh: $name: no plan, left out" >&2
    continue
  }
  real+=("--plan $out/$name --id $name")
  stand_in+=("--plan $out/$name --id $name.stand-in --stand-in --rank 0")
done <"${GRID:-$project/validate/deepspeed/grid.txt}"
printf '%s\n' "${real[@]}" "${stand_in[@]}" >"$out/JOBS.txt"
echo "${#real[@]} plans; measure them with: python3 validate/deepspeed/measure_many.py $out/JOBS.txt --out $out/measured" >&2
