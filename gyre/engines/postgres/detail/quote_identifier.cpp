// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/quote_identifier.hpp>

namespace gyre::postgres::detail {

std::string quote_identifier(std::string_view name) {
  std::string text = "\"";
  for (const char character : name) {
    if (character == '"') text += '"';
    text += character;
  }
  return text += '"';
}

}  // namespace gyre::postgres::detail
