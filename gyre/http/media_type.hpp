// SPDX-License-Identifier: Apache-2.0
// media_type: a value of the header Content-Type; and the types of files by their names.
//
//     auto type = gyre::http::media_type::parse("text/html; charset=\"utf-8\"");
//     if (type && type->is("text/html")) use(type->parameter("charset").value_or("utf-8"));
//     std::string_view icon = gyre::http::media_type_of("favicon.ICO");  // "image/x-icon"
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gyre::http {

/// A view of a media type with its parameters (RFC 9110, 8.3.1).
///
/// Thread-safety: as a value.
/// Lifetime: the text must outlive the view.
/// Complexity: parse() and parameter() read the text once; parameter() allocates its result.
class media_type {
 public:
  /// Nothing unless the text is "type/subtype" with parameters of tokens or quoted strings, each
  /// name once. Parameters may be empty, as in "text/html;".
  [[nodiscard]] static std::optional<media_type> parse(std::string_view text);

  /// The parts before and after the '/', in the case in which they were written.
  [[nodiscard]] std::string_view type() const noexcept { return type_; }
  [[nodiscard]] std::string_view subtype() const noexcept { return subtype_; }
  /// Whether it is of a type, such as "text/html", in any case and with any parameters.
  [[nodiscard]] bool is(std::string_view type_and_subtype) const noexcept;
  /// The value of a parameter, whose name may be in any case, without quotes.
  [[nodiscard]] std::optional<std::string> parameter(std::string_view name) const;

 private:
  std::string_view type_;
  std::string_view subtype_;
  std::string_view parameters_;
};

/// The media type of a file by the extension of its name or path, which may be in any case;
/// "application/octet-stream" for unknown ones. Texts have "; charset=utf-8".
[[nodiscard]] std::string_view media_type_of(std::string_view file_name) noexcept;

/// Whether bodies of a type, parameters included, become much smaller by compression.
[[nodiscard]] bool is_compressible(std::string_view media_type) noexcept;

}  // namespace gyre::http
