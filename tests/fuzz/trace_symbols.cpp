// SPDX-License-Identifier: Apache-2.0
// Fuzz target: symbol tables of ELF files and the names of functions, as dumps of the flight
// recorder read them. A file is valid with some changed bytes, or is any bytes.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/trace/detail/function_names.hpp>
#include <tests/support/small_elf_file.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gyre::fuzz::require;
  using gyre::trace::detail::find_symbol;
  gyre::fuzz::decisions decide(data, size);
  std::vector<std::byte> file = gyre::test::small_elf_file();
  require(find_symbol(file, 0x1008) == "inner");
  if (decide.flip()) {
    for (std::size_t changes = decide.below(8); changes > 0; --changes) {
      file[decide.below(file.size())] = static_cast<std::byte>(decide.below(256));
    }
    file.resize(file.size() - decide.below(16));
  } else {
    const auto any = std::as_bytes(std::span(decide.rest()));
    file.assign(any.begin(), any.end());
  }
  const std::string_view name = find_symbol(file, 0x1008);
  require(name.size() <= file.size());
  const std::string text(decide.rest());
  require(gyre::trace::detail::shorten_function_name(text).size() <= text.size());
  return 0;
}
