// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/argument_traits.hpp>

#include <algorithm>

namespace gyre::redis {
namespace {

constexpr std::string_view line_end = "\r\n";
constexpr std::size_t max_header_size = 32;

// Writes a header, such as "$5\r\n", and returns its end.
char* write_header(char* target, char kind, std::size_t number) noexcept {
  *target++ = kind;
  target = std::to_chars(target, target + max_header_size, number).ptr;
  return std::ranges::copy(line_end, target).out;
}

}  // namespace

void write_argument(io::buffer& output, std::string_view text) {
  const std::span<std::byte> room = output.prepare(max_header_size + text.size() + line_end.size());
  char* const begin = reinterpret_cast<char*>(room.data());
  char* end = write_header(begin, '$', text.size());
  end = std::ranges::copy(text, end).out;
  end = std::ranges::copy(line_end, end).out;
  output.commit(static_cast<std::size_t>(end - begin));
}

namespace detail {

void begin_command(io::buffer& output, std::size_t count) {
  char* const begin = reinterpret_cast<char*>(output.prepare(max_header_size).data());
  output.commit(static_cast<std::size_t>(write_header(begin, '*', count) - begin));
}

}  // namespace detail

}  // namespace gyre::redis
