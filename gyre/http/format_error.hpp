// SPDX-License-Identifier: Apache-2.0
// format_errc: errors in the texts and encodings that HTTP carries: URLs, forms, compressed bodies.
//
//     const auto server = gyre::http::url::parse(typed);
//     if (!server) std::puts(server.error().message().c_str());
#pragma once

#include <system_error>
#include <type_traits>

namespace gyre::http {

/// Errors of url, query, request targets, multipart_reader and decompressor. Each message states
/// the rule that the text violates.
enum class format_errc {
  // The next codes are errors of URLs and request targets.

  too_long = 1,          ///< longer than the limit; also equal to std::errc::message_size
  bad_percent_encoding,  ///< a '%' without two hexadecimal digits
  bad_character,         ///< a character that must be percent-encoded, such as a blank
  no_scheme,             ///< the URL does not begin with a scheme and "://"
  bad_host,              ///< neither a name, nor an IPv4 address, nor an IPv6 address in brackets
  host_not_ascii,        ///< an internationalised name, which must be written as "xn--…" (IDNA)
  bad_port,              ///< not a number from 1 to 65535
  bad_target,            ///< a request target whose form its method does not allow

  // The next codes are errors of queries and forms.

  too_many_pairs,  ///< more pairs than the limit

  // The next codes are errors of multipart/form-data.

  bad_boundary,           ///< empty, longer than 70 characters, or with forbidden characters
  bad_part,               ///< a part's headers or a boundary line that violates RFC 7578
  too_many_parts,         ///< more parts than the limit
  part_headers_too_long,  ///< longer than the limit
  preamble_too_long,      ///< more bytes before the first boundary than the limit
  epilogue_too_long,      ///< more bytes after the last boundary than the limit
  incomplete,             ///< the body ended before the last boundary, or within compressed data

  // The next codes are errors of compressed bodies.

  bad_compression,  ///< malformed data for the coding, or data after its end
  output_limit,     ///< the data unpack to more bytes than the limit
};

/// Returns the category of format_errc, "gyre.http.format". Thread-safety: any thread.
const std::error_category& format_category() noexcept;

inline std::error_code make_error_code(format_errc error) noexcept {
  return {static_cast<int>(error), format_category()};
}

}  // namespace gyre::http

template <>
struct std::is_error_code_enum<gyre::http::format_errc> : std::true_type {};
