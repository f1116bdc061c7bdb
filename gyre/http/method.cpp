// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/method.hpp>

namespace gyre::http {

std::string method_set::to_string() const {
  std::string text;
  for (unsigned each = 0; each != static_cast<unsigned>(method::other); ++each) {
    const auto which = static_cast<method>(each);
    if (!contains(which)) continue;
    if (!text.empty()) text += ", ";
    text += to_text(which);
  }
  return text;
}

}  // namespace gyre::http
