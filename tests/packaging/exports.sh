#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that gyre's shared libraries under FOLDER export the functions of gyre, and nothing else, and
# that their sonames end in SOVERSION.
#
#   exports.sh FOLDER SOVERSION
set -euo pipefail

count=0
while IFS= read -r library; do
  ((++count))
  if ! readelf --dynamic --wide "$library" | grep --quiet --fixed-strings \
    "soname: [${library##*/}.$2]"; then
    echo "$library has another soname than ${library##*/}.$2" >&2
    exit 1
  fi
  exported=$(nm --dynamic --defined-only --format=posix "$library" | cut --delimiter=' ' --fields=1)
  if [[ -z $exported ]]; then
    echo "$library exports nothing" >&2
    exit 1
  fi
  if others=$(grep --invert-match --extended-regexp '^_Z[A-Za-z0-9_]*N?K?4gyre' <<<"$exported"); then
    echo "$library exports what is not gyre's:" >&2
    echo "$others" >&2
    exit 1
  fi
  # Functions of unnamed namespaces and lambdas (Ul, and $_ of Clang), and parts that the compiler has
  # split off (.), are local to their source.
  if hidden=$(nm --defined-only --format=posix "$library" | sed --quiet 's/ t .*//p' |
    grep --extended-regexp '^_ZN[KVRO]*4gyre' |
    grep --invert-match --extended-regexp '_GLOBAL__N_|Ul|[$]_|[.]'); then
    echo "$library hides functions of gyre:" >&2
    c++filt <<<"$hidden" >&2
    exit 1
  fi
done < <(find "$1" -name 'libgyre_*.so')
if ((count == 0)); then
  echo "no shared library under $1" >&2
  exit 1
fi
