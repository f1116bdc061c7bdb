#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs a program with the flags gyre.pc gives and nothing else, and checks that what it
# includes needs no optional dependency.
#
#   pkg_config.sh PKG_CONFIG COMPILER PKG_CONFIG_DIRECTORY SOURCE OUTPUT_DIRECTORY
set -euo pipefail
pkg_config=$1 compiler=$2 source=$4 output=$5
export PKG_CONFIG_PATH=$3

mkdir -p "$output"
read -ra cflags <<<"$("$pkg_config" --cflags gyre)"
read -ra libs <<<"$("$pkg_config" --libs gyre)"

"$compiler" -std=c++23 "${cflags[@]}" "$source" -MD -MF "$output/consumer.d" \
  -o "$output/consumer" "${libs[@]}"
"$output/consumer"

if grep --extended-regexp 'boost/|concurrentqueue/' "$output/consumer.d"; then
  echo "gyre.hpp includes an optional dependency" >&2
  exit 1
fi
