// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/request_target.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/format_error.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/host_port.hpp>

#include <algorithm>

namespace gyre::http {
namespace {

std::unexpected<std::error_code> failure(format_errc error) {
  return std::unexpected(make_error_code(error));
}

// Whether `host` is a valid name. A name whose last label is a number would be read as an IPv4
// address.
bool is_name(std::string_view host) {
  constexpr std::size_t max_name_size = 253, max_label_size = 63;
  if (host.ends_with('.')) host.remove_suffix(1);
  if (host.empty() || host.size() > max_name_size) return false;
  std::string_view rest = host, label;
  bool has_more = true;
  while (has_more) {
    has_more = rest.contains('.');
    label = detail::take_until(rest, '.');
    if (label.empty() || label.size() > max_label_size ||
        !detail::all_are(detail::in_name, label)) {
      return false;
    }
  }
  return !net::ends_in_number(host);
}

bool is_visible(char character) {
  return character > ' ' && character < '\x7f' && character != '#';
}

}  // namespace

std::expected<authority, std::error_code> authority::parse(std::string_view text) {
  authority result;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos) return failure(format_errc::bad_host);
    result.host = text.substr(1, end - 1);
    result.is_ipv6 = true;
    rest = text.substr(end + 1);
  } else {
    result.host = text.substr(0, text.find(':'));
    rest = text.substr(result.host.size());
  }
  if (std::ranges::any_of(result.host, [](char character) { return (character & 0x80) != 0; })) {
    return failure(format_errc::host_not_ascii);
  }
  // Refuses an address with a zone, such as "fe80::1%eth0", which has a meaning on one machine
  // only.
  const auto address = net::ip_address::parse(result.host);
  const bool is_v6 = address && !address->is_v4() && !result.host.contains('%');
  const bool is_v4_or_name = (address && address->is_v4()) || is_name(result.host);
  if (!(result.is_ipv6 ? is_v6 : is_v4_or_name)) return failure(format_errc::bad_host);
  if (rest.empty()) return result;
  if (!rest.starts_with(':')) return failure(format_errc::bad_host);
  constexpr std::size_t max_digits = 5;
  rest.remove_prefix(1);
  if (rest.empty()) return result;  // the empty port of "host:" means none (RFC 3986, 3.2.3)
  if (rest.size() <= max_digits) result.port = gyre::detail::parse_decimal<std::uint16_t>(rest);
  if (!result.port || *result.port == 0) return failure(format_errc::bad_port);
  return result;
}

void request_target::split_path(std::string_view text) noexcept {
  const std::size_t position = text.find('?');
  has_query_ = position != text.npos;
  path_ = text.substr(0, position);
  query_ = has_query_ ? text.substr(position + 1) : std::string_view();
}

std::expected<request_target, std::error_code> request_target::parse(method request_method,
                                                                     std::string_view text) {
  if (!std::ranges::all_of(text, is_visible)) return failure(format_errc::bad_character);
  return parse_visible(request_method, text);
}

std::expected<request_target, std::error_code> request_target::parse_visible(
    method request_method, std::string_view text) {
  request_target target;
  if (request_method == method::connect) {
    const auto server_authority = gyre::http::authority::parse(text);
    if (!server_authority) return std::unexpected(server_authority.error());
    if (!server_authority->port) return failure(format_errc::bad_port);
    target.form_ = target_form::authority;
    target.authority_ = *server_authority;
    return target;
  }
  if (text.starts_with('/')) {
    target.split_path(text);
    return target;
  }
  if (text == "*") {
    if (request_method != method::options) return failure(format_errc::bad_target);
    target.form_ = target_form::asterisk;
    target.path_ = text;
    return target;
  }
  const std::size_t end = text.find("://");
  if (end == text.npos) return failure(format_errc::bad_target);
  target.scheme_ = text.substr(0, end);
  if (!detail::equals_ignoring_case(target.scheme_, "http") &&
      !detail::equals_ignoring_case(target.scheme_, "https")) {
    return failure(format_errc::bad_target);
  }
  text.remove_prefix(end + 3);
  const std::string_view server = text.substr(0, text.find_first_of("/?"));
  const auto server_authority = gyre::http::authority::parse(server);
  if (!server_authority) return std::unexpected(server_authority.error());
  target.form_ = target_form::absolute;
  target.authority_ = *server_authority;
  target.split_path(text.substr(server.size()));
  // An empty path means "/", except that OPTIONS without a query then addresses the server itself.
  if (target.path_.empty()) {
    const bool is_asterisk = request_method == method::options && !target.has_query_;
    target.path_ = is_asterisk ? "*" : "/";
  }
  return target;
}

}  // namespace gyre::http
