// SPDX-License-Identifier: Apache-2.0
// small_elf_file: an ELF file with one function, for tests of symbol tables.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace gyre::test {

/// Returns a file with a section of symbols and one of texts. Its only function, "inner", is at the
/// addresses from 0x1000 to 0x100f.
inline std::vector<std::byte> small_elf_file() {
  struct {
    Elf64_Ehdr header{};
    Elf64_Shdr sections[2]{};
    Elf64_Sym symbol{};
    char texts[8] = "\0inner";
  } file;
  std::memcpy(file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_CLASS] = ELFCLASS64;
  file.header.e_shoff = offsetof(decltype(file), sections);
  file.header.e_shentsize = sizeof(Elf64_Shdr);
  file.header.e_shnum = 2;
  file.sections[0].sh_type = SHT_SYMTAB;
  file.sections[0].sh_link = 1;
  file.sections[0].sh_offset = offsetof(decltype(file), symbol);
  file.sections[0].sh_size = sizeof(Elf64_Sym);
  file.sections[1].sh_type = SHT_STRTAB;
  file.sections[1].sh_offset = offsetof(decltype(file), texts);
  file.sections[1].sh_size = sizeof(file.texts);
  file.symbol.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
  file.symbol.st_name = 1;
  file.symbol.st_value = 0x1000;
  file.symbol.st_size = 16;
  std::vector<std::byte> bytes(sizeof(file));
  std::memcpy(bytes.data(), &file, sizeof(file));
  return bytes;
}

}  // namespace gyre::test
