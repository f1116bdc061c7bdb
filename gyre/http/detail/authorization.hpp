// SPDX-License-Identifier: Apache-2.0
// Reads the field Authorization, and writes WWW-Authenticate (RFC 9110, 11; RFC 7617; RFC 6750).
#pragma once

#include <gyre/http/fields.hpp>
#include <gyre/http/response.hpp>

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::http::detail {

enum class authorization_fault {
  missing,    ///< no field Authorization, or one of another scheme
  malformed,  ///< several fields, or credentials that the scheme does not allow
};

/// Returns the text after the scheme. `scheme` is in lower case.
std::expected<std::string_view, authorization_fault> credentials_of(field_list fields,
                                                                    std::string_view scheme);

/// A name and a password, decoded.
struct basic_login {
  std::string text;   // "name:password"
  std::size_t colon;  // the index of the ':'

  std::string_view name() const noexcept { return std::string_view(text).substr(0, colon); }
  std::string_view password() const noexcept { return std::string_view(text).substr(colon + 1); }
};

/// Returns nothing unless `credentials` is the Base64 of a name, ':' and a password, without
/// control characters.
std::optional<basic_login> parse_basic(std::string_view credentials);

/// Whether the text is a token that Bearer may carry.
bool is_bearer_token(std::string_view text) noexcept;

/// Returns `realm="…"`. Throws std::invalid_argument for a realm with control characters or bytes
/// that are not ASCII.
std::string realm_parameter(std::string_view realm);

/// A response with the field WWW-Authenticate.
response respond_with_challenge(status code, std::string_view challenge);

}  // namespace gyre::http::detail
