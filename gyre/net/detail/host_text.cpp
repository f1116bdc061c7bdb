// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/host_text.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/resolve_error.hpp>
#include <gyre/net/service.hpp>

#include <algorithm>

namespace gyre::net::detail {
namespace {

constexpr std::size_t max_host_size = 255;  // a number of bytes, more than DNS allows

using gyre::detail::equals_ignoring_case;
using gyre::detail::is_digit;
using gyre::detail::is_letter;

bool may_be_service(std::string_view text) noexcept {
  const auto may_occur = [](char character) {
    return is_letter(character) || is_digit(character) ||
           std::string_view("-_.+").contains(character);
  };
  return std::ranges::all_of(text, may_occur) && std::ranges::any_of(text, is_letter);
}

}  // namespace

bool may_be_name(std::string_view host) noexcept {
  const auto may_occur = [](char character) {
    return is_letter(character) || is_digit(character) || character == '-' || character == '_' ||
           character == '.' || static_cast<unsigned char>(character) >= 0x80;
  };
  if (host.empty() || host.size() > max_host_size || !std::ranges::all_of(host, may_occur)) {
    return false;
  }
  const bool has_empty_label = host.starts_with('.') || host.find("..") != host.npos;
  if (has_empty_label) return false;
  if (host.ends_with('.')) host.remove_suffix(1);
  return !host.empty() && !host.ends_with('.') && !ends_in_number(host);
}

bool host_text::is_localhost() const noexcept {
  constexpr std::string_view name = "localhost";
  if (host.size() < name.size() || !may_be_name(host)) return false;
  const std::string_view prefix = host.substr(0, host.size() - name.size());
  return equals_ignoring_case(host.substr(prefix.size()), name) &&
         (prefix.empty() || prefix.ends_with('.'));
}

std::expected<host_text, std::error_code> split_host_text(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return failure(std::errc::invalid_argument);
  const std::string_view port_text = text.substr(colon + 1);
  std::string_view host = text.substr(0, colon);
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (is_bracketed != host.contains(':')) return failure(std::errc::invalid_argument);
  auto port = gyre::detail::parse_decimal<std::uint16_t>(port_text);
  if (!port) {
    if (!may_be_service(port_text)) return failure(std::errc::invalid_argument);
    port = service(port_text).port();
    if (!port) return failure(resolve_errc::service_not_found);
  }
  return host_text{.host = host, .port = *port, .is_bracketed = is_bracketed};
}

std::string describe_expected_forms(std::string_view text, bool allows_names) {
  std::string message = '\'' + std::string(text) + '\'';
  if (text.starts_with("unix:")) return message;
  message += allows_names ? ", expected HOST:PORT, such as example.org:https, 192.0.2.1:80"
                          : ", expected ADDRESS:PORT, such as 192.0.2.1:80, localhost:http, :80";
  message += " or [2001:db8::7]:80, or unix:PATH";
  if (!allows_names) message += "; another host name needs a resolver";
  return message;
}

}  // namespace gyre::net::detail
