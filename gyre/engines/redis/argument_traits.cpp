// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/argument_traits.hpp>

namespace gyre::redis {
namespace {

// Appends a header, such as "$5\r\n".
void write_header(io::buffer& output, char kind, std::size_t number) {
  char text[32];
  text[0] = kind;
  char* end = std::to_chars(text + 1, std::end(text), number).ptr;
  *end++ = '\r';
  *end++ = '\n';
  output.append(std::string_view(text, end));
}

}  // namespace

void write_argument(io::buffer& output, std::string_view text) {
  write_header(output, '$', text.size());
  output.append(text);
  output.append(std::string_view("\r\n"));
}

namespace detail {

void begin_command(io::buffer& output, std::size_t count) { write_header(output, '*', count); }

}  // namespace detail

}  // namespace gyre::redis
