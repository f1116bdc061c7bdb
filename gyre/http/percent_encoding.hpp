// SPDX-License-Identifier: Apache-2.0
// Percent-encoding and decoding of the parts of URLs (RFC 3986, 2.1).
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

/// Replaces each "%xx" by its byte. Returns nothing if a '%' is not followed by two hexadecimal
/// digits. The result may contain any byte: '/', "..", zero bytes, and bytes that are not UTF-8.
///
/// Complexity: linear; allocates the result.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text,
                                                        plus_sign plus = plus_sign::is_plus);

/// Decodes the text into `memory`, which must hold at least text.size() characters and may be the
/// memory of the text itself. Returns the part of `memory` that holds the result. Allocates
/// nothing.
///
/// Errors: std::length_error if `memory` is too small.
[[nodiscard]] std::optional<std::string_view> percent_decode(std::string_view text,
                                                             std::span<char> memory,
                                                             plus_sign plus = plus_sign::is_plus);

/// Whether every '%' is followed by two hexadecimal digits.
[[nodiscard]] bool is_percent_encoded(std::string_view text) noexcept;

/// Whether the encoded text decodes to `plain`. Allocates nothing.
[[nodiscard]] bool decodes_to(std::string_view encoded_text, std::string_view plain,
                              plus_sign plus = plus_sign::is_plus) noexcept;

/// Appends the text with every byte encoded except letters, digits and - . _ ~; for a segment of a
/// path, or a name or value of a query.
void append_encoded_component(std::string& output, std::string_view text);
/// Appends the path with every byte encoded that a path may not contain; keeps '/'.
void append_encoded_path(std::string& output, std::string_view path);

/// Returns the text as append_encoded_component() encodes it.
[[nodiscard]] inline std::string encode_component(std::string_view text) {
  std::string result;
  append_encoded_component(result, text);
  return result;
}
/// Returns the path as append_encoded_path() encodes it.
[[nodiscard]] inline std::string encode_path(std::string_view path) {
  std::string result;
  append_encoded_path(result, path);
  return result;
}

}  // namespace gyre::http
