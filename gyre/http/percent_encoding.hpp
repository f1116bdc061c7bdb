// SPDX-License-Identifier: Apache-2.0
// Percent-encoding of URLs (RFC 3986, 2.1), and the decoding of it.
//
//     std::string path = "/files/" + gyre::http::encode_component("50 % off");  // 50%20%25%20off
//     std::optional<std::string> name = gyre::http::percent_decode("50%20%25%20off");
//     if (!name) throw std::invalid_argument("a '%' without two digits");
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http {

/// How '+' is decoded: as itself in paths, as a blank in forms and queries.
enum class plus_sign { is_plus, is_blank };

/// The text with each "%xx" replaced by its byte; nothing if a '%' has not two hexadecimal digits.
/// The result may contain any byte: '/', "..", zero bytes, and bytes that are no UTF-8.
///
/// Complexity: linear; allocates the result.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text,
                                                        plus_sign plus = plus_sign::is_plus);

/// As percent_decode(), into memory of the caller, which holds at least text.size() characters and
/// may be the text's own: the part of `memory` that is the result. Allocates nothing.
///
/// Errors: std::length_error if `memory` is too small.
[[nodiscard]] std::optional<std::string_view> percent_decode(std::string_view text,
                                                             std::span<char> memory,
                                                             plus_sign plus = plus_sign::is_plus);

/// Whether every '%' is followed by two hexadecimal digits.
[[nodiscard]] bool is_percent_encoded(std::string_view text) noexcept;

/// Whether the encoded text decodes to `plain`. Allocates nothing.
[[nodiscard]] bool decodes_to(std::string_view encoded, std::string_view plain,
                              plus_sign plus = plus_sign::is_plus) noexcept;

/// Adds the text with every byte encoded but letters, digits and - . _ ~: a segment of a path, or a
/// name or value of a query.
void append_encoded_component(std::string& output, std::string_view text);
/// Adds the text with every byte encoded that may not stand in a path; '/' stays.
void append_encoded_path(std::string& output, std::string_view path);

[[nodiscard]] inline std::string encode_component(std::string_view text) {
  std::string encoded;
  append_encoded_component(encoded, text);
  return encoded;
}
[[nodiscard]] inline std::string encode_path(std::string_view path) {
  std::string encoded;
  append_encoded_path(encoded, path);
  return encoded;
}

}  // namespace gyre::http
