// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/quoted.hpp>

namespace gyre::postgres::detail {

std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char each : name) {
    if (each == '"') text += '"';
    text += each;
  }
  return text += '"';
}

}  // namespace gyre::postgres::detail
