// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/head_writer.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>

#include <utility>

namespace gyre::http::detail {
namespace {

constexpr std::string_view connection_field = "Connection";
constexpr std::string_view upgrade_name = "Upgrade";

// Whether the server decides on a connection option. The framing fields belong to these options,
// because a proxy drops the fields that Connection names.
constexpr bool is_own_option(std::string_view option) noexcept {
  for (const std::string_view own_name :
       {"close", "keep-alive", "upgrade", "content-length", "transfer-encoding"}) {
    if (equals_ignoring_case(option, own_name)) return true;
  }
  return false;
}

}  // namespace

handler_fields head_writer::put_fields(const http::fields& fields) {
  constexpr std::string_view date = "Date", length = "Content-Length", coding = "Transfer-Encoding";
  handler_fields own_fields;
  if (!fields.may_have_names_of({date.size(), connection_field.size(), length.size(), coding.size(),
                                 upgrade_name.size()})) {
    if (!fields.empty()) put(fields.text());
    return own_fields;
  }
  for (const field& field : fields) {
    if (equals_ignoring_case(field.name, connection_field)) {
      own_fields.has_connection = true;
      own_fields.asks_for_close = own_fields.asks_for_close || list_has_word(field.value, "close");
      own_fields.has_upgrade = own_fields.has_upgrade || list_has_word(field.value, upgrade_name);
      continue;
    }
    if (equals_ignoring_case(field.name, length)) {
      own_fields.content_length = gyre::detail::parse_decimal<std::uint64_t>(field.value);
      continue;
    }
    if (equals_ignoring_case(field.name, coding)) continue;
    own_fields.has_upgrade =
        own_fields.has_upgrade || equals_ignoring_case(field.name, upgrade_name);
    own_fields.has_date = own_fields.has_date || equals_ignoring_case(field.name, date);
    put(std::string_view(field.name.data(), field.name.size() + field.value.size() + 4));
  }
  return own_fields;
}

void head_writer::put_connection(const http::fields& fields, const handler_fields& own_fields,
                                 std::string_view own_option) {
  bool is_first = true;
  // The handler's options are separated by "," alone: they then need no more memory than the fields
  // of the handler, for which the constructor has reserved it.
  const auto put_option = [&](std::string_view option, std::string_view separator = ", ") {
    put(std::exchange(is_first, false) ? "Connection: " : separator);
    put(option);
  };
  if (own_fields.has_connection) {
    for (const field& field : fields) {
      if (!equals_ignoring_case(field.name, connection_field)) continue;
      std::string_view options = field.value;
      while (!options.empty()) {
        const std::string_view option = trim(take_until(options, ','));
        if (is_token(option) && !is_own_option(option)) put_option(option, ",");
      }
    }
  }
  if (own_fields.has_upgrade) put_option("upgrade");
  if (!own_option.empty()) put_option(own_option);
  if (!is_first) put("\r\n");
}

}  // namespace gyre::http::detail
