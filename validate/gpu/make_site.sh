#!/usr/bin/env bash
# Gathers into .site/ what building zplan-validate needs and a bare GPU machine with PyTorch and nvcc lacks:
# the headers of nlohmann/json, CLI11, Eigen and zlib, with their CMake files, from this machine's packages.
# .site/ is ignored by git; carry it beside the sources.  validate/gpu/make_site.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

prefix=.site
rm -rf .site/include .site/share .site/lib
mkdir -p "$prefix/include" "$prefix/share/cmake" "$prefix/share/eigen3" "$prefix/lib"
cp -r /usr/include/nlohmann /usr/include/CLI "$prefix/include/"
cp -r /usr/include/eigen3 "$prefix/include/"
cp /usr/include/zlib.h /usr/include/zconf.h "$prefix/include/"
cp -r /usr/share/cmake/nlohmann_json /usr/share/cmake/CLI11 "$prefix/share/cmake/"
cp -r /usr/share/eigen3/cmake "$prefix/share/eigen3/"
cp "$(find /usr/lib -name libz.a | head -1)" "$prefix/lib/"
du -sh "$prefix" >&2
