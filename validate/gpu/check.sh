#!/usr/bin/env bash
# Builds zplan-validate on a GPU machine and checks there what needs a GPU. About six minutes on one H200.
#   validate/gpu/check.sh [OUT]      OUT: folder for checks.json, the records and the logs (default ./zplan-out/gpu)
# Needs PyTorch >= 2.4 with CUDA, nvcc, CMake, ninja, and the headers of validate/gpu/make_site.sh in .site/ where
# the machine has no packages of them. ZPLAN_VALIDATE_BIN uses a program that is already built.
# Exit code 0 if every check holds.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

out=${1:-zplan-out/gpu}
mkdir -p "$out"
out=$(cd "$out" && pwd)
results=$out/checks.jsonl
: >"$results"
export LC_ALL=C

say() { echo "[$SECONDS s] $*" >&2; }

# record NAME OK DETAIL: one line of the result.
record() {
  python3 - "$@" >>"$results" <<'PY'
import json, sys
print(json.dumps({"check": sys.argv[1], "ok": sys.argv[2] == "true", "detail": sys.argv[3]}))
PY
  say "$1: $2 ($3)"
}

# holds NAME EXPRESSION RECORD...: a Python expression over r (the first record) and rs (all of them).
holds() {
  local name=$1 expression=$2
  shift 2
  local verdict
  verdict=$(python3 - "$expression" "$@" 2>&1 <<'PY'
import json, sys
try:
    rs = [json.load(open(path)) for path in sys.argv[2:]]
    r = rs[0]
    peak = lambda q: max(p["allocated_peak_bytes"] for p in q["phases"])
    mean = lambda xs: sum(xs) / len(xs)
    # The first 8 steps: later ones differ by what Adam makes of the last digit of a sum in another order.
    apart = lambda a, b: max(abs(x - y) for x, y in zip(a["losses"][:8], b["losses"][:8]))
    ok, detail = eval(sys.argv[1])
    print("true" if ok else "false", detail)
except Exception as e:
    print("false", repr(e))
PY
)
  record "$name" "${verdict%% *}" "${verdict#* }"
}

build() {
  local torch
  torch=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)') || return 1
  TORCH_CUDA_ARCH_LIST=$(python3 -c 'import torch; print("%d.%d" % torch.cuda.get_device_capability())')
  export TORCH_CUDA_ARCH_LIST
  cmake -S . -B build/check -G Ninja -DCMAKE_BUILD_TYPE=Release -DZPLAN_TESTS=OFF -DZPLAN_VALIDATE=ON \
    -DCMAKE_PREFIX_PATH="$PWD/.site;$torch" -DTorch_DIR="$torch/Torch" >"$out/configure.log" 2>&1 &&
    cmake --build build/check --target zplan-validate >"$out/build.log" 2>&1
}

say "building"
program=${ZPLAN_VALIDATE_BIN:-}
if [[ -z $program ]]; then
  if ! build; then
    tail -40 "$out/configure.log" "$out/build.log" >&2
    record build false "see configure.log and build.log"
    exit 1
  fi
  program=build/check/validate/zplan-validate
fi
record build true "$SECONDS s"

# try NAME SECONDS OPTIONS...: runs the program, record in $out/NAME.json, log beside it; its exit code in $code.
try() {
  local name=$1 limit=$2
  shift 2
  timeout -k 5 "$limit" "$program" --out "$out/$name.json" --id "$name" "$@" >"$out/$name.txt" 2>"$out/$name.log"
  code=$?
  say "$name: exit code $code"
}

gpus=$(python3 -c 'import torch; print(torch.cuda.device_count())')

# A decoder of 2 narrow layers: what sanitizers and comparisons with the CPU can afford.
cat >"$out/tiny.json" <<'JSON'
{"model_type": "qwen3", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 512,
 "max_position_embeddings": 512, "tie_word_embeddings": false, "rms_norm_eps": 1e-6, "rope_theta": 1000000}
JSON
tiny=(--model "$out/tiny.json" --seq-len 64 --micro-batch 2 --lr 5e-3)

# 1. A real fine-tune: the loss of Qwen3-0.6B falls in 30 steps.
try qwen3-0.6b 120 --model qwen3-0.6b --stage 2 --seq-len 1024 --steps 30 --timed-steps 5 --lr 1e-4 --load gpu --monitor "$out/metrics.prom"
holds "Qwen3-0.6B, 1 rank, 30 steps: the loss falls" \
  '(r["outcome"] == "ok" and sum(r["losses"][-3:]) / 3 < 0.8 * r["losses"][0], "%.3f to %.3f" % (r["losses"][0], r["losses"][-1]))' \
  "$out/qwen3-0.6b.json"

# 2. Qwen3-8B, rank 0 of 4, ZeRO-3: the allocated peak of the same DeepSpeed run was 39,290,823,168 bytes.
job=(--model qwen3-8b --stage 3 --world 4 --stand-in --seq-len 2048 --recompute full --steps 3)
try qwen3-8b 180 "${job[@]}"
holds "Qwen3-8B, --world 4 --stand-in: allocated peak within 3 % of DeepSpeed" \
  '(abs(peak(r) / 39290823168 - 1) < 0.03, "%d bytes, %+.2f %%" % (peak(r), 100 * (peak(r) / 39290823168 - 1)))' \
  "$out/qwen3-8b.json"
cat "$out/qwen3-8b.txt" >&2

# 3. Another card's size: it fails as an out-of-memory result, with a record.
try qwen3-8b-capacity 120 "${job[@]}" --capacity 30GiB
holds "a capacity too small ends as oom with exit code 1" \
  '(r["outcome"] == "oom" and "out of memory" in r["oom_message"] and len(r["phases"]) > 2 and '"$code"' == 1, r["failure"]["where"])' \
  "$out/qwen3-8b-capacity.json"

# 4. The micro-measurements alone.
begin=$SECONDS
try profile 90 --model qwen3-8b --seq-len 2048 --profile-only
holds "--profile-only in under a minute" \
  '('"$((SECONDS - begin))"' < 60 and r["profile"]["copy"]["h2d_pinned_gb_per_s"] > 1 and max(m["tflops"] for m in r["profile"]["matmul"]) > 1,
    "%s s, best matmul %.0f TFLOP/s" % ('"$((SECONDS - begin))"', max(m["tflops"] for m in r["profile"]["matmul"])))' \
  "$out/profile.json"

# 5. The GPU computes what the CPU computes.
try tiny-cpu 60 "${tiny[@]}" --stage 0 --steps 20 --device cpu --precision fp32
for stage in 0 1 2 3; do
  try "tiny-$stage" 60 "${tiny[@]}" --stage "$stage" --steps 20 --precision fp32 --recompute full
  holds "stage $stage fp32 on the GPU follows the CPU" \
    '(apart(r, rs[1]) < 0.001, "worst difference of 8 steps %.4f" % apart(r, rs[1]))' \
    "$out/tiny-$stage.json" "$out/tiny-cpu.json"
done
for extra in "--stage 2 --offload-optimizer" "--stage 3 --offload-optimizer" "--stage 3 --offload-optimizer --offload-param"; do
  name=tiny$(tr -d ' ' <<<"$extra")
  read -ra words <<<"$extra"
  try "$name" 60 "${tiny[@]}" --steps 20 --precision bf16 --grad-accum 2 "${words[@]}"
  holds "$extra on the GPU learns" \
    '(r["outcome"] == "ok" and mean(r["losses"][-5:]) < mean(r["losses"][:5]) - 0.1,
      "five steps, mean %.3f to %.3f" % (mean(r["losses"][:5]), mean(r["losses"][-5:])))' \
    "$out/$name.json"
done

# 6. A rank that dies leaves nothing behind.
begin=$SECONDS
try dies 60 "${tiny[@]}" --stage 3 --steps 6 --rehearse die@0:backward:2
holds "a killed rank ends the run within 30 s" \
  '(r["outcome"] == "failed" and r["failure"]["where"].startswith("in backward of step 2") and '"$((SECONDS - begin))"' < 30 and '"$code"' == 3, r["failure"]["what"])' \
  "$out/dies.json"

# 7. Several GPUs: real NCCL gives the loss curve of one GPU that accumulates.
if ((gpus > 1)); then
  try nccl-one 90 "${tiny[@]}" --stage 0 --steps 20 --precision fp32 --grad-accum "$gpus"
  for stage in 0 1 2 3; do
    try "nccl-$stage" 90 "${tiny[@]}" --stage "$stage" --steps 20 --precision fp32 --world "$gpus"
    holds "stage $stage over NCCL on $gpus GPUs follows one GPU" \
      '(apart(r, rs[1]) < 0.001, "worst difference of 8 steps %.4f" % apart(r, rs[1]))' \
      "$out/nccl-$stage.json" "$out/nccl-one.json"
  done
  for what in die hang; do
    begin=$SECONDS
    try "nccl-$what" 90 "${tiny[@]}" --stage 3 --steps 6 --world "$gpus" --timeout 10 --rehearse "$what@1:backward:2"
    holds "a rank that does '$what' ends all ranks within 30 s" \
      '(r["outcome"] == "failed" and r["failure"]["rank"] == 1 and '"$((SECONDS - begin))"' < 30, r["failure"]["what"])' \
      "$out/nccl-$what.json"
  done
  try nccl-8b 150 --model qwen3-8b --stage 3 --world "$gpus" --seq-len 2048 --recompute full --steps 3 --timed-steps 3
  cat "$out/nccl-8b.txt" >&2
fi

# 8. compute-sanitizer sees no bad access.
if command -v compute-sanitizer >/dev/null; then
  timeout -k 5 150 compute-sanitizer --tool memcheck --error-exitcode 9 --target-processes all \
    "$program" --out "$out/memcheck.json" "${tiny[@]}" --stage 3 --world 4 --stand-in --recompute full --steps 2 \
    >"$out/memcheck.txt" 2>&1
  code=$?
  record "compute-sanitizer memcheck is clean on the tiny model" "$([[ $code == 0 ]] && echo true || echo false)" \
    "exit code $code, $(grep -c 'ERROR SUMMARY: 0 errors' "$out/memcheck.txt") clean summaries"
fi

left=$(pgrep -fc 'zplan-validate --out' || true)
record "no process is left" "$([[ $left == 0 ]] && echo true || echo false)" "$left left"

python3 - "$results" "$out/checks.json" <<'PY'
import json, sys
checks = [json.loads(line) for line in open(sys.argv[1])]
json.dump({"schema": "zplan.checks/1", "checks": checks}, open(sys.argv[2], "w"), indent=1)
failed = [c["check"] for c in checks if not c["ok"]]
print("%d of %d checks hold" % (len(checks) - len(failed), len(checks)))
for name in failed: print("FAILED:", name)
sys.exit(bool(failed))
PY
