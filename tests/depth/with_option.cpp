// SPDX-License-Identifier: Apache-2.0
// A program's file that is compiled with the options of gyre's CMake targets and pkg-config file.
#include "checks.hpp"

#include <iterator>

namespace depth {
namespace {

struct this_file;
using here = coroutines<this_file>;

}  // namespace

const check* const with_option_begin = std::begin(here::all);
const check* const with_option_end = std::end(here::all);

gyre::task<long> link_with_option(long value) {
  const long result = co_await shared_link(value);
  co_return result;
}

}  // namespace depth
