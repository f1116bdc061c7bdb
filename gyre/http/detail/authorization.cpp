// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/authorization.hpp>

#include <gyre/base/detail/base64.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/field_lookup.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gyre::http::detail {
namespace {

constexpr std::string_view field_name = "Authorization";

bool is_control(char character) noexcept {
  const auto byte = static_cast<unsigned char>(character);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

std::expected<std::string_view, authorization_fault> credentials_of(field_list fields,
                                                                    std::string_view scheme) {
  std::optional<std::string_view> value = only_field(fields, field_name);
  if (!value) {
    return std::unexpected(fields.contains(field_name) ? authorization_fault::malformed
                                                       : authorization_fault::missing);
  }
  const std::string_view name = take_until(*value, ' ');
  if (!equals_lower(name, scheme)) return std::unexpected(authorization_fault::missing);
  return trim(*value);
}

std::optional<basic_login> parse_basic(std::string_view credentials) {
  auto text = gyre::detail::decode_base64(credentials);
  if (!text || std::ranges::any_of(*text, is_control)) return std::nullopt;
  const std::size_t colon = text->find(':');
  if (colon == std::string::npos) return std::nullopt;
  return basic_login{.text = *std::move(text), .colon = colon};
}

bool is_bearer_token(std::string_view text) noexcept {
  while (text.ends_with('=')) text.remove_suffix(1);
  return !text.empty() && std::ranges::all_of(text, [](char character) {
    return is(is_unreserved, character) || character == '+' || character == '/';
  });
}

std::string realm_parameter(std::string_view realm) {
  std::string text = "realm=\"";
  for (const char character : realm) {
    if (is_control(character) || static_cast<unsigned char>(character) > 0x7f) {
      throw std::invalid_argument("http: a realm must be of visible ASCII characters and blanks");
    }
    if (character == '"' || character == '\\') text += '\\';
    text += character;
  }
  return text + '"';
}

response respond_with_challenge(status code, std::string_view challenge) {
  return response::text(std::string(reason_phrase(code)) + "\n", code)
      .set("WWW-Authenticate", challenge);
}

}  // namespace gyre::http::detail
