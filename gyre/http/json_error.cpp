// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/json_error.hpp>

#include <gyre/http/detail/characters.hpp>

#include <cstddef>
#include <string>

namespace gyre::http {
namespace {

constexpr std::size_t max_detail = 200;  // the limit in bytes

std::string sentence(std::string_view beginning, std::string_view detail) {
  std::string text(beginning);
  if (!detail.empty()) text += ": ";
  std::size_t size = detail.size();
  if (size > max_detail) {
    size = max_detail;
    // A character that does not fit as a whole is left out.
    while (size != 0 && (static_cast<unsigned char>(detail[size]) & 0xc0U) == 0x80U) --size;
  }
  for (const char character : detail.substr(0, size)) {
    text += detail::is_value_character(character) ? character : '?';
  }
  if (size != detail.size()) text += "\u2026";
  if (!text.ends_with('.')) text += '.';
  return text;
}

}  // namespace

json_error json_error::malformed(std::string_view detail) {
  return {status::bad_request, sentence("The body is not JSON", detail)};
}

json_error json_error::mismatch(std::string_view detail) {
  return {status::unprocessable_content,
          sentence("The JSON of the body is not of the expected form", detail)};
}

}  // namespace gyre::http
