// SPDX-License-Identifier: Apache-2.0
// function_names: the names of functions by the addresses of their code.
#pragma once

#include <gyre/base/detail/mapped_image.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::trace::detail {

/// A place in the code of the process.
struct code_place {
  std::string function;      ///< short, for people; empty if it is not known
  std::string image;         ///< the file of the program or the library; empty if it is not known
  std::uint64_t offset = 0;  ///< in `image`, as addr2line(1) takes it
};

/// Returns the name in the symbol table of the ELF file `image` of the function that has the
/// address `offset`, as the compiler mangled it; empty if the file has none. Reads nothing outside
/// of `image`, whatever it contains. O(symbols).
std::string_view find_symbol(std::span<const std::byte> image, std::uint64_t offset) noexcept;

/// Returns a name for people of a function: without its parameters, and for a callable that gyre
/// has wrapped, the name of the callable. Throws std::bad_alloc.
std::string shorten_function_name(std::string_view demangled_name);

/// Looks up the names of functions in the files of the process, which need not export them. Keeps
/// the files mapped, and the names that were found.
///
/// Thread-safety: one thread at a time.
class function_names {
 public:
  /// Throws std::bad_alloc.
  const code_place& find(std::uint64_t address);

 private:
  std::map<std::uint64_t, code_place> places_;
  std::map<std::string, std::unique_ptr<gyre::detail::mapped_image>> images_;
};

}  // namespace gyre::trace::detail
