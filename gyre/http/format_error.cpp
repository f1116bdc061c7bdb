// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/format_error.hpp>

#include <gyre/base/detail/enum_category.hpp>

namespace gyre::http {
namespace {

const char* message_of(format_errc code) noexcept {
  switch (code) {
    case format_errc::too_long: return "the text is longer than the limit";
    case format_errc::bad_percent_encoding:
      return "a '%' is not followed by two hexadecimal digits";
    case format_errc::bad_character:
      return "a character, such as a blank, must be percent-encoded here";
    case format_errc::no_scheme: return "a URL begins with a scheme, such as https://example.org/";
    case format_errc::bad_host:
      return "the host is no name, no IPv4 address and no IPv6 address in brackets";
    case format_errc::host_not_ascii:
      return "the host is an internationalised name; write it in ASCII, as xn--… (IDNA)";
    case format_errc::bad_port: return "the port is no number from 1 to 65535";
    case format_errc::bad_target: return "the request target has no form that its method allows";
    case format_errc::too_many_pairs: return "there are more pairs than the limit";
    case format_errc::bad_boundary:
      return "the boundary is empty, too long, or has characters that are not allowed";
    case format_errc::bad_part: return "the headers or the boundary of a part are malformed";
    case format_errc::too_many_parts: return "there are more parts than the limit";
    case format_errc::part_headers_too_long:
      return "the headers of a part are longer than the limit";
    case format_errc::preamble_too_long: return "too many bytes come before the first boundary";
    case format_errc::epilogue_too_long: return "too many bytes come after the last boundary";
    case format_errc::incomplete: return "the data ended too early";
    case format_errc::bad_compression: return "the compressed data are malformed";
    case format_errc::output_limit: return "the data unpack to more bytes than the limit";
  }
  return "unknown error";
}

std::errc condition_of(format_errc code) noexcept {
  return code == format_errc::too_long ? std::errc::message_size : std::errc();
}

}  // namespace

const std::error_category& format_category() noexcept {
  static const gyre::detail::enum_category<format_errc> category("gyre.http.format", message_of,
                                                                 condition_of);
  return category;
}

}  // namespace gyre::http
