#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs a program with only the flags of gyre.pc, and others with those of gyre-testing.pc
# and of the engines, and checks that the headers which the first includes need no optional
# dependency. The others are test.cpp and engines.cpp beside SOURCE.
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

read -ra cflags <<<"$("$pkg_config" --cflags gyre-testing)"
read -ra libs <<<"$("$pkg_config" --libs gyre-testing)"
"$compiler" -std=c++23 "${cflags[@]}" "${source%/*}/test.cpp" -o "$output/consumer_test" "${libs[@]}"
"$output/consumer_test"

read -ra cflags <<<"$("$pkg_config" --cflags gyre-redis gyre-nats gyre-work)"
read -ra libs <<<"$("$pkg_config" --libs gyre-redis gyre-nats gyre-work)"
"$compiler" -std=c++23 "${cflags[@]}" "${source%/*}/engines.cpp" -o "$output/consumer_of_engines" \
  "${libs[@]}"
"$output/consumer_of_engines"

# A room brings its own libraries, and no others.
if [[ -n $("$pkg_config" --print-requires gyre-pool) ]]; then
  echo "gyre-pool needs other packages" >&2
  exit 1
fi
libs=" $("$pkg_config" --libs gyre-net) "
if [[ $libs != *" -lgyre_net -lgyre_io "*" -lcares "* || $libs == *" -lssl "* ]]; then
  echo "gyre-net does not bring just its own libraries: $libs" >&2
  exit 1
fi

if grep --extended-regexp 'boost/|concurrentqueue/' "$output/consumer.d"; then
  echo "gyre.hpp includes an optional dependency" >&2
  exit 1
fi
