#!/usr/bin/env bash
# Builds the comparison with torch's own allocator by the compiler alone and runs it: on this machine's GPU,
# or with --stand-in on none. Needs g++ 11 or later and an installed torch 2.10 or later with CUDA.
#   validate/allocator/run.sh [--stand-in] [--events N] [--seed S] [--episode SEED] [--out result.json]
# PYTHON names the Python whose torch it is; the default is .venv's, else python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

device=device_real.cpp name=allocator_differential
if [[ ${1:-} == --stand-in ]]; then
  device="device_stand_in.cpp fake_cuda.cpp" name=allocator_differential_stand_in
  shift
fi
python=${PYTHON:-python3}
if [[ -z ${PYTHON:-} && -x .venv/bin/python ]]; then python=.venv/bin/python; fi
torch=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')
include="" runtime=""
for folder in "$torch"/../nvidia/cu1[0-9] "$torch"/../nvidia/cuda_runtime "${CUDA_HOME:-/usr/local/cuda}"; do
  if [[ -z $include && -f $folder/include/cuda_runtime_api.h ]]; then include=$folder/include; fi
  for library in "$folder"/lib/libcudart.so.* "$folder"/lib64/libcudart.so.*; do
    if [[ -z $runtime && -f $library ]]; then runtime=$library; fi
  done
done
if [[ -z $include || -z $runtime ]]; then
  echo "run.sh: error: no cuda_runtime_api.h and libcudart beside $torch" >&2
  echo "  fix: set CUDA_HOME to a CUDA toolkit" >&2
  exit 2
fi

out=build/allocator-differential
mkdir -p "$out"
objects=()
compile() {
  local object
  object=$out/$(basename "$1" .cpp).o
  objects+=("$object")
  ${CXX:-g++} -std=c++20 -O2 -Isrc -Ivalidate/allocator -isystem "$torch/include" -isystem "$include" \
    -c "$1" -o "$object" &
  while (($(jobs -r | wc -l) >= $(nproc))); do wait -n; done
}
for file in src/allocator/*.cpp src/units/*.cpp; do compile "$file"; done
for file in conf_strings.cpp differential.cpp episode.cpp model_side.cpp torch_side.cpp $device; do
  compile "validate/allocator/$file"
done
wait
${CXX:-g++} -rdynamic "${objects[@]}" -L"$torch/lib" -Wl,-rpath,"$torch/lib" \
  -Wl,-rpath,"$(dirname "$runtime")" -lc10 -lc10_cuda "$runtime" -o "$out/$name"
exec "$out/$name" "$@"
