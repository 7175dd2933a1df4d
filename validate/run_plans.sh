#!/usr/bin/env bash
# Runs plans for real: launch.sh of each folder, as zplan wrote it, for a few steps on a random model made here, on
# the GPUs of this machine. Nothing is downloaded. Writes one JSON with the losses and the peaks of every plan.
#   validate/run_plans.sh RESULT.json PLAN_FOLDER...
#   JOBS=1 plans at a time on the same GPU: their memory does not change, only their pace
#   LIMIT=1800 seconds after which a run counts as failed
#   SHAPE="hidden_size=1024 num_hidden_layers=28 ..." STEPS=20 of Qwen3Config; default: the shape of Qwen3-0.6B
# Needs torch, transformers, accelerate and DeepSpeed in the python3 of the PATH, and nvcc.
# Ends with 1 if a run failed, or if its loss did not fall.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
result=$(realpath -m "${1:?where to write the result}")
shift
shape=${SHAPE:-hidden_size=1024 intermediate_size=3072 num_hidden_layers=28 num_attention_heads=16 \
num_key_value_heads=8 head_dim=128 vocab_size=151936 tie_word_embeddings=true}
steps=${STEPS:-20}
jobs=${JOBS:-1}
limit=${LIMIT:-1800}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HF_HUB_OFFLINE=1

# DeepSpeed unpacked beside python3 (on the PYTHONPATH) has no program on the PATH.
if ! command -v deepspeed >/dev/null; then
  mkdir "$work/bin"
  printf '#!/bin/sh\nexec python3 -m deepspeed.launcher.runner "$@"\n' >"$work/bin/deepspeed"
  chmod +x "$work/bin/deepspeed"
  export PATH=$work/bin:$PATH
fi

read -ra shape <<<"$shape"
python3 "$project/tests/python/tiny_model.py" "$work/model" "${shape[@]}"

# run_plan PLAN PORT
run_plan() {
  local name code=0 begin=$SECONDS
  name=$(basename "$1")
  MODEL=$work/model DATA=$work/model/rows.jsonl OUTPUT=$work/$name MASTER_PORT=$2 \
    timeout -k 10 "$limit" "$1/launch.sh" --max_steps "$steps" --disable_tqdm true >"$work/$name.log" 2>&1 || code=$?
  { echo "== $name: exit code $code after $((SECONDS - begin)) s"
    tail -n $((code ? 100 : 25)) "$work/$name.log"; } >&2
  echo "$code" >"$work/$name.code"
  rm -f "$work/$name"/*.safetensors  # the trained weights are not looked at
}

port=29500  # that one is accelerate's
for plan in "$@"; do
  port=$((port + 1))
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
  run_plan "$plan" "$port" &
done
wait

python3 - "$work" "$result" "$steps" "${shape[*]}" "$@" <<'PYTHON'
import importlib.metadata
import json
import pathlib
import platform
import re
import sys

import torch

work, result, steps, shape, *plans = sys.argv[1:]
work, runs = pathlib.Path(work), []
for plan in map(pathlib.Path, plans):
    state = work / plan.name / "trainer_state.json"
    history = json.loads(state.read_text())["log_history"] if state.exists() else []
    log = (work / f"{plan.name}.log").read_text()
    memory = re.findall(r"rank (\d+): at most ([\d.]+) GiB allocated, ([\d.]+) GiB reserved", log)
    losses = [entry["loss"] for entry in history if "loss" in entry]
    code = int((work / f"{plan.name}.code").read_text())
    runs.append({
        "plan": plan.name, "exit_code": code, "losses": losses,
        "loss_fell": len(losses) == int(steps) and losses[-1] < losses[0],
        "peak_gib": [{"rank": int(r), "allocated": float(a), "reserved": float(v)} for r, a, v in memory],
        "arguments": dict(re.findall(r"^  --(\w+) ([^$\n]+)$", (plan / "launch.sh").read_text(), re.M)),
        "ds_config": json.loads((plan / "ds_config.json").read_text()),
    })
versions = {}
for name in ("torch", "deepspeed", "transformers", "accelerate", "peft", "bitsandbytes"):
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass  # peft and bitsandbytes: only plans with adapters need them
versions.update(python=platform.python_version(), cuda=torch.version.cuda)
gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
pathlib.Path(result).write_text(json.dumps(
    {"schema": "zplan.launched/1", "model": shape, "steps": int(steps), "gpus": gpus, "versions": versions, "runs": runs},
    indent=1) + "\n")
for run in runs:
    ends = f"{run['losses'][0]:.3f} -> {run['losses'][-1]:.3f}" if run["losses"] else "no loss"
    print(f"{run['plan']}: exit {run['exit_code']}, loss {ends}, {'falls' if run['loss_fell'] else 'DOES NOT FALL'}")
sys.exit(0 if all(run["exit_code"] == 0 and run["loss_fell"] for run in runs) else 1)
PYTHON
