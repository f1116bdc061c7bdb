// SPDX-License-Identifier: Apache-2.0
// A contender whose work is a thousand allocations, which it reports where they are counted, and
// whether anything stands in front of the C library's malloc. CTest runs it with and without
// `--count allocations`.
#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

namespace {

bool malloc_is_replaced() {
  Dl_info found{};
  if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &found) == 0) return true;
  return std::string_view(found.dli_fname).find("/libc.so") == std::string_view::npos;
}

void allocate(const lab::harness_options&, lab::report& result) {
  const auto before = lab::allocations();
  for (int i = 0; i < 1000; ++i) {
    void* block = std::malloc(10);
    asm volatile("" : : "r"(block) : "memory");
    std::free(block);
  }
  if (const auto after = lab::allocations()) result.metric("allocations", *after - *before);
  result.metric("replaced", malloc_is_replaced() ? 1 : 0);
}

}  // namespace

int main(int argc, char** argv) {
  lab::arguments none;
  const lab::identity self{"test", "counted_program", "", "", {}};
  return lab::contender_main(argc, argv, self, none, allocate);
}
