#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs a program with only the flags of gyre.pc, and checks that the headers which it
# includes need no optional dependency.
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
