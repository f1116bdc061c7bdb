// SPDX-License-Identifier: Apache-2.0
// take_parameter: parameters of field values, "; name=value; name=\"value\"" (RFC 9110, 5.6.6).
#pragma once

#include <gyre/http/detail/characters.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::http::detail {

/// The meaning of a backslash in a quoted string.
enum class backslash { escapes, is_ordinary };

struct parameter {
  std::string_view name;
  std::string_view raw;      // the value; of a quoted string, the part between its quotes
  bool has_escapes = false;  // whether the backslashes in `raw` escape characters

  std::string value() const {
    if (!has_escapes) return std::string(raw);
    std::string text;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] == '\\') ++i;
      text += raw[i];
    }
    return text;
  }
};

/// Removes a quoted string from the beginning of `text`, and returns the part between its quotes.
/// Returns nothing if there is none.
inline std::optional<std::string_view> take_quoted(std::string_view& text,
                                                   backslash backslash_meaning) noexcept {
  if (!text.starts_with('"')) return std::nullopt;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      const std::string_view content = text.substr(1, i - 1);
      text.remove_prefix(i + 1);
      return content;
    }
    if (text[i] == '\\' && backslash_meaning == backslash::escapes) ++i;
    if (i == text.size() || !is_value_character(text[i])) break;
  }
  return std::nullopt;
}

/// Returns `text` from the ';' of the first parameter that is not empty; "" if there is none.
/// Parameters may be empty, as in "text/html;" and "text/html;; charset=utf-8" (RFC 9110, 5.6.6).
constexpr std::string_view without_empty_parameters(std::string_view text) noexcept {
  text = trim(text);
  while (text.starts_with(';')) {
    const std::string_view rest = trim(text.substr(1));
    if (!rest.empty() && rest.front() != ';') break;
    text = rest;
  }
  return text;
}

/// Removes and returns the next parameter, with the ';' before it and the empty parameters around
/// it. Returns nothing if the parameter is malformed, or if all are empty. Blanks may stand around
/// ';', and not around '='.
inline std::optional<parameter> take_parameter(
    std::string_view& text, backslash backslash_meaning = backslash::escapes) noexcept {
  text = without_empty_parameters(text);
  if (!text.starts_with(';')) return std::nullopt;
  text = trim(text.substr(1));
  parameter result;
  result.name = take_while(in_token, text);
  if (result.name.empty() || !text.starts_with('=')) return std::nullopt;
  text.remove_prefix(1);
  if (text.starts_with('"')) {
    const auto content = take_quoted(text, backslash_meaning);
    if (!content) return std::nullopt;
    result.has_escapes = backslash_meaning == backslash::escapes;
    result.raw = *content;
  } else {
    result.raw = take_while(in_token, text);
    if (result.raw.empty()) return std::nullopt;
  }
  text = without_empty_parameters(text);
  if (!text.empty() && text.front() != ';') return std::nullopt;
  return result;
}

}  // namespace gyre::http::detail
