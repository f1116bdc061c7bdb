// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/read_server_message.hpp>

#include <gyre/engines/postgres/detail/body_reader.hpp>

#include <charconv>
#include <string>
#include <string_view>

namespace gyre::postgres::detail {
namespace {

constexpr std::size_t max_field = std::size_t{64} << 10;

std::string* field_of(server_message& message, char kind) noexcept {
  switch (kind) {
    case 'V': return &message.severity;
    case 'C': return &message.sqlstate;
    case 'M': return &message.message;
    case 'D': return &message.detail;
    case 'H': return &message.hint;
    case 'W': return &message.context;
    case 's': return &message.schema;
    case 't': return &message.table;
    case 'c': return &message.column;
    case 'd': return &message.data_type;
    case 'n': return &message.constraint;
    case 'R': return &message.routine;
    default: return nullptr;
  }
}

}  // namespace

std::optional<server_message> read_server_message(std::span<const std::byte> body) {
  server_message message;
  std::string_view translated_severity;
  body_reader reader(body);
  for (;;) {
    const char kind = static_cast<char>(reader.read<std::uint8_t>());
    if (!reader.is_good()) return std::nullopt;
    if (kind == '\0') break;
    const std::string_view value = reader.text();
    if (std::string* const field = field_of(message, kind)) {
      field->assign(value.substr(0, max_field));
    } else if (kind == 'S') {
      translated_severity = value.substr(0, max_field);
    } else if (kind == 'P') {
      std::from_chars(value.data(), value.data() + value.size(), message.position);
    }
  }
  if (!reader.is_complete()) return std::nullopt;
  // Servers before 9.6, and poolers, send the severity only in a form that may be translated.
  if (message.severity.empty()) message.severity = translated_severity;
  return message;
}

bool ends_connection(const server_message& error) noexcept {
  return error.severity == "FATAL" || error.severity == "PANIC";
}

}  // namespace gyre::postgres::detail
