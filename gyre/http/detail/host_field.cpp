// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/host_field.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/net/address.hpp>

#include <cstddef>

namespace gyre::http::detail {
namespace {

// The size of the host at the front of `text`; 0 if there is none.
std::size_t host_size(std::string_view text) noexcept {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return 0;
    const std::string_view address = text.substr(1, end - 1);
    for (const char each : address) {
      if (!is(is_hex, each) && each != ':' && each != '.') return 0;
    }
    return address.contains(':') && net::ip_address::parse(address) ? end + 1 : 0;
  }
  std::size_t size = 0;
  while (size != text.size() && is(in_host, text[size])) {
    if (text[size] == '%') {
      const bool encoded =
          text.size() - size > 2 && is(is_hex, text[size + 1]) && is(is_hex, text[size + 2]);
      if (!encoded) return 0;
    }
    ++size;
  }
  return size;
}

bool is_port(std::string_view text) noexcept {
  unsigned number = 0;
  if (text.size() > 5) return false;
  for (const char each : text) {
    if (!is_digit(each)) return false;
    number = number * 10 + static_cast<unsigned>(each - '0');
  }
  return number <= 65535;
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

}  // namespace gyre::http::detail
