#!/usr/bin/env bash
# zplan from a clone: builds the program on first use and whenever its sources changed, then runs it.
#   ./zplan.sh --model qwen3-8b --gpus 4xA100-40G
# On Debian and Ubuntu it installs the packages that the build needs, or says which are missing.
# test.sh sources this file for its functions.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# What the build needs: a Debian package for each tool or header that has to be there.
build_tools=(c++:g++ cmake:cmake ninja:ninja-build)
build_libraries=(nlohmann-json3-dev libcli11-dev libeigen3-dev zlib1g-dev)

installed() { [[ $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null) == "install ok installed" ]]; }

# require_packages TOOL:PACKAGE... -- PACKAGE...: installs what is missing, or names it and stops.
# A tool counts wherever it comes from; a library is looked up by package.
require_packages() {
  local missing=() entry
  while (($#)) && [[ $1 != -- ]]; do
    command -v "${1%%:*}" >/dev/null || missing+=("${1#*:}")
    shift
  done
  (($#)) && shift
  if command -v dpkg-query >/dev/null; then
    for entry in "$@"; do installed "$entry" || missing+=("$entry"); done
  fi
  ((${#missing[@]})) || return 0

  local as_root=()
  if ((EUID != 0)); then as_root=(sudo -n); fi
  if command -v apt-get >/dev/null && { ((EUID == 0)) || sudo -n true 2>/dev/null; }; then
    echo "installing ${missing[*]}" >&2
    local log; log=$(mktemp)
    if "${as_root[@]}" apt-get update -qq >"$log" 2>&1 &&
       "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y -qq --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
      rm -f "$log"
      return 0
    fi
    cat "$log" >&2
    rm -f "$log"
  fi
  echo "zplan: error: these packages are missing: ${missing[*]}" >&2
  echo "  fix: sudo apt-get install ${missing[*]}" >&2
  exit 2
}

# Runs a command and shows what it said only if it failed.
quietly() {
  local log; log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

build_zplan() {
  require_packages "${build_tools[@]}" -- "${build_libraries[@]}"
  echo "building zplan" >&2
  quietly cmake -S "$root" --preset release -B "$root/build/zplan" -DZPLAN_TESTS=OFF &&
    quietly cmake --build "$root/build/zplan" --target zplan
}

main() {
  local binary=$root/build/zplan/zplan
  mkdir -p "$root/build"
  if [[ ! -x $binary || -n $(find "$root/src" "$root/CMakeLists.txt" "$root/CMakePresets.json" \
                               -newer "$binary" -print -quit) ]]; then
    # Two calls at once build one after the other.
    (flock 9 && build_zplan && touch "$binary") 9>"$root/build/.zplan.lock" ||
      { echo "zplan: error: $root: the build failed (see above)" >&2; exit 2; }
  fi
  exec "$binary" "$@"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
