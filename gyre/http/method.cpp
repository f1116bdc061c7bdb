// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/method.hpp>

namespace gyre::http {

std::string method_set::to_string() const {
  std::string text;
  for (unsigned each = 0; each != static_cast<unsigned>(method::other); ++each) {
    const auto value = static_cast<method>(each);
    if (!contains(value)) continue;
    if (!text.empty()) text += ", ";
    text += to_text(value);
  }
  return text;
}

}  // namespace gyre::http
