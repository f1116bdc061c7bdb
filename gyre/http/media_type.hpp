// SPDX-License-Identifier: Apache-2.0
// media_type: the parsed value of a header Content-Type. media_type_of(): the type of a file by
// name.
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
  /// Returns nothing unless the text is "type/subtype" with parameters that are tokens or quoted
  /// strings, each name at most once. Empty parameters are allowed, as in "text/html;".
  [[nodiscard]] static std::optional<media_type> parse(std::string_view text);

  /// The parts before and after the '/', in the case in which they were written.
  [[nodiscard]] std::string_view type() const noexcept { return type_; }
  [[nodiscard]] std::string_view subtype() const noexcept { return subtype_; }
  /// Whether the type and subtype are these, such as "text/html", in any case; ignores parameters.
  [[nodiscard]] bool is(std::string_view type_and_subtype) const noexcept;
  /// Whether the subtype ends in this suffix, such as "json" in "application/problem+json", in any
  /// case (RFC 6838, 4.2.8).
  [[nodiscard]] bool has_suffix(std::string_view suffix) const noexcept;
  /// The unquoted value of the parameter with this name, in any case.
  [[nodiscard]] std::optional<std::string> parameter(std::string_view name) const;

 private:
  std::string_view type_;
  std::string_view subtype_;
  std::string_view parameters_;
};

/// Returns the media type of a file by the extension of its name or path, in any case;
/// "application/octet-stream" for unknown extensions. Types of texts include "; charset=utf-8".
[[nodiscard]] std::string_view media_type_of(std::string_view file_name) noexcept;

/// Whether compression makes bodies of this type much smaller. The type may have parameters.
[[nodiscard]] bool is_compressible(std::string_view media_type) noexcept;

}  // namespace gyre::http
