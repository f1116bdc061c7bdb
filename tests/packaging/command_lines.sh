#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs a program with hand-written command lines of Debug and of Release builds, with and
# without the flags of gyre.pc, against gyre installed in two configurations; then checks that the
# headers of one with the library of the other are refused, with a message that gives the reason.
#
#   command_lines.sh PKG_CONFIG COMPILER SOURCE OUTPUT_DIRECTORY LIBRARY_DIRECTORY PREFIX OTHER_PREFIX
set -euo pipefail
pkg_config=$1 compiler=$2 source=$3 output=$4 library_directory=$5
prefixes=("$6" "$7")

mkdir -p "$output"
cd "$output"
options_of() {
  grep --only-matching 'define GYRE_ASYNC_BACKTRACE [01]' \
    "$1/include/gyre/task/detail/build_options.hpp"
}
if [[ $(options_of "${prefixes[0]}") == "$(options_of "${prefixes[1]}")" ]]; then
  echo "the two installations do not differ: this checks nothing" >&2
  exit 1
fi

for i in 0 1; do
  prefix=${prefixes[i]}
  export PKG_CONFIG_PATH=$prefix/$library_directory/pkgconfig
  read -ra cflags <<<"$("$pkg_config" --cflags gyre)"
  read -ra libs <<<"$("$pkg_config" --libs gyre)"
  by_hand=("-L$prefix/$library_directory" -lgyre_task -lgyre_trace -lgyre_base -pthread)

  "$compiler" -std=c++23 -g "${cflags[@]}" "$source" -o debug "${libs[@]}"
  ./debug
  "$compiler" -std=c++23 -O2 -DNDEBUG "${cflags[@]}" "$source" -o release "${libs[@]}"
  ./release
  "$compiler" -std=c++23 -O2 -DNDEBUG "-I$prefix/include" -c "$source" -o "by_hand_$i.o"
  "$compiler" "by_hand_$i.o" -o release "${by_hand[@]}"
  ./release
done

# must_fail MESSAGE COMMAND…
must_fail() {
  local message=$1
  shift
  if "$@" >output.txt 2>&1; then
    echo "succeeded, but should not: $*" >&2
    exit 1
  fi
  if ! grep --quiet "$message" output.txt; then
    cat output.txt
    echo "should have failed because of $message: $*" >&2
    exit 1
  fi
}

# Headers of one configuration must not link with the library of the other, even if the program uses
# nothing of gyre, so that the linker discards everything.
printf '#include <gyre/task/task.hpp>\nint main() {}\n' >uses_nothing.cpp
for i in 0 1; do
  other=("-L${prefixes[1 - i]}/$library_directory" -lgyre_task -lgyre_trace -lgyre_base -pthread)
  message=library_built_with_gyre_async_backtrace_
  must_fail "$message" "$compiler" "by_hand_$i.o" -o mixed "${other[@]}"
  for level in -O0 -O3; do
    must_fail "$message" "$compiler" -std=c++23 $level -fdata-sections -Wl,--gc-sections \
      "-I${prefixes[i]}/include" uses_nothing.cpp -o mixed "${other[@]}"
  done
  for value in 0 1; do
    if ! options_of "${prefixes[i]}" | grep --quiet "$value\$"; then
      must_fail "leave the macro undefined" "$compiler" -std=c++23 -fsyntax-only \
        "-DGYRE_ASYNC_BACKTRACE=$value" "-I${prefixes[i]}/include" uses_nothing.cpp
    fi
  done
done

# libstdc++'s debug mode, which changes containers, and programs without RTTI or exceptions, which
# gyre needs, must be refused, too.
flags=(-std=c++23 "-I${prefixes[0]}/include")
must_fail library_built_with_glibcxx_debug "$compiler" "${flags[@]}" -D_GLIBCXX_DEBUG \
  uses_nothing.cpp -o mixed "-L${prefixes[0]}/$library_directory" -lgyre_task -lgyre_trace -lgyre_base -pthread
for flag in -fno-rtti -fno-exceptions; do
  must_fail "without $flag" "$compiler" "${flags[@]}" $flag -fsyntax-only uses_nothing.cpp
done
