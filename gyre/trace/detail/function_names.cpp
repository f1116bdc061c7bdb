// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/function_names.hpp>

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gyre::trace::detail {
namespace {

// Copies the object of type T at `offset` of the file; nothing if the file ends before.
template <class T>
std::optional<T> read_at(std::span<const std::byte> image, std::uint64_t offset) noexcept {
  if (offset > image.size() || image.size() - offset < sizeof(T)) return std::nullopt;
  T object;
  std::memcpy(&object, image.data() + offset, sizeof(T));
  return object;
}

// Returns the bytes of a section; empty if the file ends before.
std::span<const std::byte> bytes_of(std::span<const std::byte> image,
                                    const Elf64_Shdr& section) noexcept {
  if (section.sh_offset > image.size() || image.size() - section.sh_offset < section.sh_size) {
    return {};
  }
  return image.subspan(section.sh_offset, section.sh_size);
}

std::string_view text_at(std::span<const std::byte> texts, std::uint64_t offset) noexcept {
  if (offset >= texts.size()) return {};
  const auto* const begin = reinterpret_cast<const char*>(texts.data()) + offset;
  return {begin, ::strnlen(begin, texts.size() - offset)};
}

// Returns the name of the function that contains `offset`, from one symbol table.
std::string_view find_in_table(std::span<const std::byte> symbols, std::span<const std::byte> texts,
                               std::uint64_t offset) noexcept {
  for (std::uint64_t position = 0; const auto symbol = read_at<Elf64_Sym>(symbols, position);
       position += sizeof(Elf64_Sym)) {
    const bool is_function = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC;
    if (!is_function || offset < symbol->st_value) continue;
    const std::uint64_t size = std::max<std::uint64_t>(symbol->st_size, 1);
    if (offset - symbol->st_value < size) return text_at(texts, symbol->st_name);
  }
  return {};
}

std::string demangle(std::string_view mangled_name) {
  // GCC and Clang give the parts of a coroutine the name of the function and a suffix.
  const std::string name(mangled_name.substr(0, mangled_name.find(".actor")));
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

// Returns the position after the bracket that closes the one before `begin`.
std::size_t end_of_brackets(std::string_view text, std::size_t begin, char open_bracket,
                            char close_bracket) noexcept {
  std::size_t depth = 1;
  for (std::size_t index = begin; index < text.size(); ++index) {
    if (text[index] == open_bracket) ++depth;
    if (text[index] == close_bracket && (index == 0 || text[index - 1] != '-') && --depth == 0)
      return index + 1;
  }
  return text.size();
}

// The templates of gyre around a program's callable, whose first argument is the callable.
constexpr std::array<std::string_view, 7> wrappers = {
    "run_or_drop<",    "boxed_task<",    "queued_callable<",
    "timed_callable<", "callable_task<", "move_only_function_target<",
    "slab_box<"};

// Returns the callable in the wrapper that is named first; nothing if there is none.
std::optional<std::string_view> find_wrapped(std::string_view name) noexcept {
  std::size_t first = std::string_view::npos;
  std::size_t begin = 0;
  for (const std::string_view wrapper : wrappers) {
    const std::size_t position = name.find(wrapper);
    if (position >= first) continue;
    first = position;
    begin = position + wrapper.size();
  }
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t end = end_of_brackets(name, begin, '<', '>');
  return name.substr(begin, end - begin - 1);
}

// Returns where the parameters of a function begin, which is the first parenthesis outside of
// brackets that belongs neither to an operator nor to the name of an enclosing function.
std::size_t find_parameters(std::string_view name) noexcept {
  constexpr std::string_view anonymous_text = "(anonymous namespace)";
  constexpr std::string_view call = "operator()";
  for (std::size_t position = 0; position < name.size();) {
    const std::string_view rest = name.substr(position);
    if (rest.starts_with(anonymous_text)) {
      position += anonymous_text.size();
    } else if (rest.starts_with(call)) {
      position += call.size();
    } else if (name[position] == '<') {
      position = end_of_brackets(name, position + 1, '<', '>');
    } else if (name[position] == '{') {
      position = end_of_brackets(name, position + 1, '{', '}');
    } else if (name[position] == '(') {
      const std::size_t end = end_of_brackets(name, position + 1, '(', ')');
      const std::string_view text_after = name.substr(end);
      if (!text_after.starts_with("::") && !text_after.starts_with(" const::")) return position;
      position = end;
    } else {
      ++position;
    }
  }
  return name.size();
}

}  // namespace

std::string_view find_symbol(std::span<const std::byte> image, std::uint64_t offset) noexcept {
  const auto header = read_at<Elf64_Ehdr>(image, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr)) {
    return {};
  }
  const auto section_at = [&](std::uint64_t index) -> std::optional<Elf64_Shdr> {
    if (index >= header->e_shnum || header->e_shoff > image.size()) return std::nullopt;
    return read_at<Elf64_Shdr>(image, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  // A stripped file has only the symbols that it exports.
  for (const std::uint32_t type : {std::uint32_t{SHT_SYMTAB}, std::uint32_t{SHT_DYNSYM}}) {
    for (std::uint64_t index = 0; index < header->e_shnum; ++index) {
      const auto table = section_at(index);
      if (!table || table->sh_type != type) continue;
      const auto texts = section_at(table->sh_link);
      if (!texts) continue;
      const std::string_view name =
          find_in_table(bytes_of(image, *table), bytes_of(image, *texts), offset);
      if (!name.empty()) return name;
    }
  }
  return {};
}

std::string shorten_function_name(std::string_view demangled_name) {
  std::string_view name = demangled_name;
  while (const auto callable = find_wrapped(name)) name = *callable;
  name = name.substr(0, name.find(" [clone"));
  std::string_view result = name.substr(0, find_parameters(name));
  // The result of a function template stands before its name.
  std::size_t begin = 0;
  for (std::size_t position = 0; position < result.size();) {
    const char letter = result[position];
    if (letter == '<' || letter == '(' || letter == '{') {
      const char close = letter == '<' ? '>' : letter == '(' ? ')' : '}';
      position = end_of_brackets(result, position + 1, letter, close);
      continue;
    }
    if (letter == ' ' && !result.substr(0, position).ends_with("operator")) begin = position + 1;
    ++position;
  }
  result.remove_prefix(begin);
  constexpr std::string_view call = "::operator()";
  if (result.ends_with(call)) result.remove_suffix(call.size());
  return std::string(result.empty() ? name : result);
}

const code_place& function_names::find(std::uint64_t address) {
  const auto [entry, is_new] = places_.try_emplace(address);
  code_place& place = entry->second;
  if (!is_new) return place;
  const auto image = gyre::detail::loaded_image_of(address);
  if (!image) return place;
  place.image = image->path;
  place.offset = image->offset;
  auto& file = images_[image->path];
  if (file == nullptr) {
    const char* const path = image->is_program ? "/proc/self/exe" : image->path.c_str();
    file = std::make_unique<gyre::detail::mapped_image>(path);
  }
  const std::string_view symbol = find_symbol(file->bytes(), image->offset);
  if (!symbol.empty()) place.function = shorten_function_name(demangle(symbol));
  return place;
}

}  // namespace gyre::trace::detail
