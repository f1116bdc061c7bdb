// SPDX-License-Identifier: Apache-2.0
// Fuzz target: symbol tables of ELF files and the names of functions, as dumps of the flight
// recorder read them. A file is valid with some changed bytes, or is any bytes.
#include <tests/fuzz/fuzz.hpp>

#include <gyre/trace/detail/function_names.hpp>

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

// A file with a symbol table of one function, from 0x1000 to 0x1010.
struct small_file {
  Elf64_Ehdr header{};
  Elf64_Shdr sections[2]{};
  Elf64_Sym symbol{};
  char texts[8] = "\0inner";
};

std::vector<std::byte> make_file() {
  small_file file;
  std::memcpy(file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_CLASS] = ELFCLASS64;
  file.header.e_shoff = offsetof(small_file, sections);
  file.header.e_shentsize = sizeof(Elf64_Shdr);
  file.header.e_shnum = 2;
  file.sections[0].sh_type = SHT_SYMTAB;
  file.sections[0].sh_link = 1;
  file.sections[0].sh_offset = offsetof(small_file, symbol);
  file.sections[0].sh_size = sizeof(Elf64_Sym);
  file.sections[1].sh_type = SHT_STRTAB;
  file.sections[1].sh_offset = offsetof(small_file, texts);
  file.sections[1].sh_size = sizeof(file.texts);
  file.symbol.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
  file.symbol.st_name = 1;
  file.symbol.st_value = 0x1000;
  file.symbol.st_size = 16;
  std::vector<std::byte> bytes(sizeof(file));
  std::memcpy(bytes.data(), &file, sizeof(file));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gyre::fuzz::require;
  using gyre::trace::detail::find_symbol;
  gyre::fuzz::decisions decide(data, size);
  std::vector<std::byte> file = make_file();
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
