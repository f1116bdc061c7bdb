// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/method.hpp>

namespace gyre::http {

std::string method_set::to_string() const {
  std::string text;
  for (unsigned i = 0; i != static_cast<unsigned>(method::other); ++i) {
    const auto value = static_cast<method>(i);
    if (!contains(value)) continue;
    if (!text.empty()) text += ", ";
    text += to_text(value);
  }
  return text;
}

}  // namespace gyre::http
