#!/usr/bin/env bash
# plan -> measure in DeepSpeed -> calibrate -> plan again, on one GPU, for Qwen3-8B in three ways:
#   stage 3 (one rank of 4), stage 2 (one rank of 8), stage 3 with the optimizer in host memory (one rank of 4).
#   validate/deepspeed/loop.sh [OUT]     OUT: folder for plans, records and the profile (default ./zplan-out/loop)
#   ZPLAN=./zplan.sh     the planner; it builds itself on first use
#   PYTHON=python3       a Python with torch, deepspeed and transformers, and nvcc on the PATH for DeepSpeed's Adam
#   GPU=H200             the card to plan for: this machine's
#   MODEL=qwen3-8b SEQ_LEN=2048 GLOBAL_BATCH=64
# The other ranks are played by torch's fake process group: memory is a real rank's, times are not measured. The rates
# of the machine (measure_rates.py) are what the calibration gets of time.
# Ends with 0 if every measured run is within the tolerance of `zplan validate`, 1 if one is not, 2 if one did not run.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${1:-zplan-out/loop}
zplan=${ZPLAN:-$project/zplan.sh}
python=${PYTHON:-python3}
gpu=${GPU:-H200}
mkdir -p "$out"
out=$(cd "$out" && pwd)

say() { echo "[$SECONDS s] $*" >&2; }

# plan NAME RANKS FIXED...: the best plan for so many GPUs with what is fixed; more words after --.
plan() {
  local name=$1 ranks=$2
  shift 2
  local words=()
  while (($#)) && [[ $1 != -- ]]; do
    words+=(--fix "$1")
    shift
  done
  (($#)) && shift
  "$zplan" plan --model "${MODEL:-qwen3-8b}" --gpus "${ranks}x$gpu" --seq-len "${SEQ_LEN:-2048}" \
    --global-batch "${GLOBAL_BATCH:-64}" "${words[@]}" --out "$out/$name" "$@"
}

cases=(stage3 stage2 stage3-offload)
ranks=(4 8 4)
fixed=("stage=3 offload=none" "stage=2 offload=none" "stage=3 offload=optimizer")
worst=0
records=()

for i in "${!cases[@]}"; do
  name=${cases[i]}
  read -ra words <<<"${fixed[i]}"
  say "$name: plan"
  plan "$name" "${ranks[i]}" "${words[@]}" >"$out/$name.before.txt"
  say "$name: measure"
  code=0
  "$zplan" validate --plan "$out/$name" --stand-in --python "$python" --out "$out/$name.json" |
    tee "$out/$name.validation.txt" || code=${PIPESTATUS[0]}
  ((code > worst)) && worst=$code
  ((code < 2)) && records+=("$out/$name.json")
done
if ((${#records[@]} == 0)); then
  echo "loop.sh: error: no run was measured, so there is nothing to calibrate with" >&2
  echo "  fix: see the messages above" >&2
  exit 2
fi

say "rates of this machine"
"$python" "$project/validate/deepspeed/measure_rates.py" --out "$out/rates.json" >&2
say "calibrate"
"$zplan" calibrate "${records[@]}" "$out/rates.json" --out "$out/profile.json" | tee "$out/calibration.txt"

for i in "${!cases[@]}"; do
  name=${cases[i]}
  read -ra words <<<"${fixed[i]}"
  say "$name: plan again"
  plan "$name.calibrated" "${ranks[i]}" "${words[@]}" -- --profile "$out/profile.json" | tee "$out/$name.after.txt"
done
say "in $out: NAME.before.txt, NAME.validation.txt, profile.json, NAME.after.txt"
exit "$worst"
