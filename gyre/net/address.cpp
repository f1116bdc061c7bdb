// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/address.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/system_names.hpp>

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <ostream>

namespace gyre::net {
namespace {

using detail::failure;
using parsed = std::expected<ip_address, std::error_code>;

// Copies `text` with a terminating zero, for inet_pton() and find_interface().
template <std::size_t Capacity>
bool copy_terminated(std::string_view text, std::array<char, Capacity>& result) {
  if (text.size() >= Capacity || text.contains('\0')) return false;
  *std::ranges::copy(text, result.begin()).out = '\0';
  return true;
}

// Reads a scope: "2" or "eth0".
std::expected<std::uint32_t, std::error_code> parse_scope(std::string_view text) {
  if (const auto number = gyre::detail::parse_decimal<std::uint32_t>(text)) return *number;
  std::array<char, IF_NAMESIZE> name;
  if (text.empty() || !copy_terminated(text, name)) return failure(std::errc::invalid_argument);
  const unsigned index = detail::system::find_interface(name.data());
  if (index == 0) return failure(std::errc::no_such_device);
  return index;
}

parsed parse_v4(std::string_view text) {
  std::array<char, INET_ADDRSTRLEN> text_with_zero;
  ip_address::v4_bytes bytes;
  if (!copy_terminated(text, text_with_zero) ||
      ::inet_pton(AF_INET, text_with_zero.data(), bytes.data()) != 1) {
    return failure(std::errc::invalid_argument);
  }
  return ip_address(bytes);
}

parsed parse_v6(std::string_view text) {
  const std::size_t percent = text.find('%');
  std::array<char, INET6_ADDRSTRLEN> text_with_zero;
  ip_address::v6_bytes bytes;
  if (!copy_terminated(text.substr(0, percent), text_with_zero) ||
      ::inet_pton(AF_INET6, text_with_zero.data(), bytes.data()) != 1) {
    return failure(std::errc::invalid_argument);
  }
  if (percent == std::string_view::npos) return ip_address(bytes);
  const auto scope = parse_scope(text.substr(percent + 1));
  if (!scope) return std::unexpected(scope.error());
  return ip_address(bytes, *scope);
}

}  // namespace

ip_address::ip_address(std::string_view text) {
  const parsed result = parse(text);
  if (!result) {
    throw std::system_error(result.error(), "gyre::net::ip_address '" + std::string(text) + "'");
  }
  *this = *result;
}

parsed ip_address::parse(std::string_view text) {
  return text.contains(':') ? parse_v6(text) : parse_v4(text);
}

std::string ip_address::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text;
  ::inet_ntop(is_v4() ? AF_INET : AF_INET6, bytes_.data(), text.data(), text.size());
  std::string result = text.data();
  if (scope_ != 0) result += '%' + std::to_string(scope_);
  return result;
}

std::ostream& operator<<(std::ostream& output, const ip_address& address) {
  return output << address.to_string();
}

bool ends_in_number(std::string_view host) noexcept {
  if (host.ends_with('.')) host.remove_suffix(1);
  std::string_view last = host.substr(host.rfind('.') + 1);
  if (last.starts_with("0x") || last.starts_with("0X")) {
    last.remove_prefix(2);
    return std::ranges::all_of(last, [](char character) {
      return gyre::detail::is_digit(character) || (character >= 'a' && character <= 'f') ||
             (character >= 'A' && character <= 'F');
    });
  }
  return !last.empty() && std::ranges::all_of(last, gyre::detail::is_digit);
}

}  // namespace gyre::net

std::size_t std::hash<gyre::net::ip_address>::operator()(
    const gyre::net::ip_address& address) const noexcept {
  const std::span<const std::uint8_t> bytes = address.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::hash<std::string_view>()(text) ^ (std::size_t{address.scope()} << 32);
}
