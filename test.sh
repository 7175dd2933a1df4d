#!/usr/bin/env bash
# Builds zplan and runs all its tests. On a fresh Debian 12 or Ubuntu 24.04 it first installs what it needs:
# Debian packages, and the Python programs that read zplan's files (DeepSpeed, transformers) into .venv.
#   ./test.sh                      everything
#   ./test.sh --quick              the C++ tests only
#   ./test.sh --without-validate   leave out zplan-validate (LibTorch, CUDA), also where nvcc is installed
#   ./test.sh --sanitizers         the C++ tests only, built with the address and undefined-behaviour sanitizers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ./zplan.sh

quick=false validate=true sanitizers=false
for argument in "$@"; do
  case $argument in
    --quick) quick=true ;;
    --without-validate) validate=false ;;
    --sanitizers) sanitizers=true ;;
    *) echo "test.sh: error: $argument: unknown option" >&2
       echo "  fix: use --quick, --without-validate, --sanitizers or nothing" >&2
       exit 2 ;;
  esac
done

# .venv as tests/python/requirements.txt says, for this Python; nothing to do if it is so already.
python_environment() {
  local wanted stamp=.venv/.requirements
  wanted=$(python3 --version; sha256sum <tests/python/requirements.txt)
  if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then return 0; fi
  echo "installing the Python packages of tests/python/requirements.txt into .venv (some minutes, 5 GB)" >&2
  python3 -m venv --clear .venv
  # DeepSpeed comes as source; its kernels are compiled where they run, not here.
  DS_BUILD_OPS=0 quietly .venv/bin/python -m pip install --disable-pip-version-check --no-compile \
    --retries 10 -r tests/python/requirements.txt
  echo "$wanted" >"$stamp"
}

require_packages "${build_tools[@]}" git:git shellcheck:shellcheck python3:python3 -- \
  "${build_libraries[@]}" catch2 libbenchmark-dev
if $sanitizers; then
  cmake --preset dev -DZPLAN_PYTHON_TESTS=OFF
  cmake --build --preset dev
  exec ctest --preset dev -j "$(nproc)"
fi
if ! $quick; then
  python3 -c 'import ensurepip, venv' 2>/dev/null || require_packages -- python3-venv
  python_environment &  # downloads while the compiler works
  environment=$!
  trap wait EXIT  # nothing goes on after a build that failed
fi
cmake --preset release -DZPLAN_PYTHON_TESTS=OFF -DZPLAN_VALIDATE=OFF -DZPLAN_BENCH=ON  # benchmarks are built, not run
cmake --build --preset release
if ! $quick; then
  wait "$environment"
  options=(-DZPLAN_PYTHON_TESTS=ON)
  if $validate && [[ -f validate/CMakeLists.txt ]] && command -v nvcc >/dev/null; then
    options+=(-DZPLAN_VALIDATE=ON)
  fi
  cmake --preset release "${options[@]}"
  cmake --build --preset release
fi
ctest --preset release -j "$(nproc)"
