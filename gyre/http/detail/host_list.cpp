// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/host_list.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/net/address.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace gyre::http::detail {
namespace {

// Returns the size of the host at the beginning of `text`; 0 if there is none.
std::size_t host_size(std::string_view text) noexcept {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return 0;
    const std::string_view address = text.substr(1, end - 1);
    for (const char character : address) {
      if (!is(is_hex, character) && character != ':' && character != '.') return 0;
    }
    return address.contains(':') && net::ip_address::parse(address) ? end + 1 : 0;
  }
  std::size_t size = 0;
  while (size != text.size() && is(in_host, text[size])) {
    if (text[size] == '%') {
      const bool is_encoded =
          text.size() - size > 2 && is(is_hex, text[size + 1]) && is(is_hex, text[size + 2]);
      if (!is_encoded) return 0;
    }
    ++size;
  }
  return size;
}

bool is_port(std::string_view text) noexcept {
  unsigned number = 0;
  if (text.size() > 5) return false;
  for (const char character : text) {
    if (!is_digit(character)) return false;
    number = number * 10 + static_cast<unsigned>(character - '0');
  }
  return number <= 65535;
}

bool is_less_ignoring_case(std::string_view left, std::string_view right) noexcept {
  return std::ranges::lexicographical_compare(left, right, {}, &lower, &lower);
}

std::string_view without_last_dot(std::string_view host) noexcept {
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

}  // namespace

bool is_host_field(std::string_view text) noexcept {
  const std::size_t size = host_size(text);
  if (size == 0) return false;
  return size == text.size() || (text[size] == ':' && is_port(text.substr(size + 1)));
}

std::string_view host_of(std::string_view text) noexcept { return text.substr(0, host_size(text)); }

bool is_authority_form(std::string_view text) noexcept {
  return is_host_field(text) && is_digit(text.back()) && host_size(text) != text.size();
}

host_list::host_list(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    std::string_view host = without_last_dot(entry);
    const bool is_wildcard = host.starts_with("*.");
    if (is_wildcard) host.remove_prefix(2);
    const bool names_none = entry.empty();
    if (!names_none && (host.empty() || host_of(host) != host || host.contains('*'))) {
      throw std::invalid_argument("http::server: hosts: " + entry + " is no host without a port");
    }
    (is_wildcard ? parents_ : names_).emplace_back(host);
  }
  std::ranges::sort(names_, is_less_ignoring_case);
  std::ranges::sort(parents_, is_less_ignoring_case);
}

bool host_list::covers(std::string_view host) const noexcept {
  if (empty()) return true;
  host = without_last_dot(host);
  if (std::ranges::binary_search(names_, host, is_less_ignoring_case)) return true;
  const std::size_t dot = host.find('.');
  if (dot == std::string_view::npos || dot == 0) return false;
  return std::ranges::binary_search(parents_, host.substr(dot + 1), is_less_ignoring_case);
}

}  // namespace gyre::http::detail
