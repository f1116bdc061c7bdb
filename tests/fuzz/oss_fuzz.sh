#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets as OSS-Fuzz and ClusterFuzzLite want them: programs that need none of
# gyre's libraries at run time, each with a ZIP file of its corpus.
#
#   oss_fuzz.sh [NAME…]     (default: all targets)
#
# The environment has the compilers CC and CXX with the flags CFLAGS and CXXFLAGS, which choose the
# sanitizer; LIB_FUZZING_ENGINE, which is linked; and OUT, the folder of the results. WORK is for the
# build tree, GYRE_CMAKE_OPTIONS for more options of CMake. In a Debian or Ubuntu image, these packages are needed: cmake ninja-build pkg-config
# libbrotli-dev libc-ares-dev libgmock-dev libgtest-dev libnghttp2-dev liburing-dev libssl-dev
# libzstd-dev nlohmann-json3-dev python3 zlib1g-dev.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${WORK:-$source/build}/oss_fuzz
: "${CXX:?}" "${LIB_FUZZING_ENGINE:?}" "${OUT:?}"

# The flags alone decide how to optimise. Archives instead of shared libraries: the machines that run
# the targets have none.
cmake -S "$source" -B "$build" -G Ninja \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO= \
  "-DCMAKE_CXX_COMPILER=$CXX" "-DCMAKE_CXX_FLAGS=${CXXFLAGS:-}" \
  -DCMAKE_FIND_LIBRARY_SUFFIXES=.a -DPKG_CONFIG_ARGN=--static \
  -DGYRE_BUILD_LAB=OFF -DGYRE_BUILD_EXAMPLES=OFF -DGYRE_INSTALL=OFF \
  -DGYRE_FUZZ=ON "-DGYRE_FUZZING_ENGINE=$LIB_FUZZING_ENGINE" \
  ${GYRE_CMAKE_OPTIONS:-}

names=("$@")
if ((${#names[@]} == 0)); then
  mapfile -t names < <(sed -n 's/^ *gyre_add_fuzz_target(\([a-z0-9_]*\) .*/\1/p' \
    "$source/tests/fuzz/CMakeLists.txt")
fi
cmake --build "$build" --target "${names[@]/#/gyre_libfuzzer_}"
for name in "${names[@]}"; do
  cp "$build/tests/fuzz/gyre_libfuzzer_$name" "$OUT/$name"
  corpus=$source/tests/fuzz/corpus/$name
  if [[ -d $corpus ]]; then
    (cd "$corpus" && cmake -E tar cf "$OUT/${name}_seed_corpus.zip" --format=zip -- *)
  fi
done
