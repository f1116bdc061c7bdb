// SPDX-License-Identifier: Apache-2.0
// ip_network: a block of addresses in CIDR notation.
//
//     const gyre::net::ip_network office = "192.0.2.0/24";
//     if (office.contains(peer.address())) …
#pragma once

#include <gyre/net/address.hpp>

#include <compare>
#include <concepts>
#include <expected>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::net {

/// All addresses of one version that begin with the same bits, such as 192.0.2.0/24 or
/// 2001:db8::/32. IPv4-mapped addresses count as IPv4 addresses, and scopes are ignored.
///
/// Source: RFC 4632, RFC 4291.
///
/// Errors: the constructors throw std::invalid_argument, with the text in its message, if parse()
/// would refuse it: an address without '/' stands for itself, and bits after the prefix must be
/// zero, because "192.0.2.7/24" is more often a mistake than a network.
class ip_network {
 public:
  /// The network of `first_address` and all addresses that share its first `prefix_length` bits.
  ip_network(const ip_address& first_address, unsigned prefix_length);
  // NOLINTNEXTLINE(google-explicit-constructor): lists of networks are written as texts
  template <std::convertible_to<std::string_view> Text>
  ip_network(const Text& text) : ip_network(read(text)) {}

  /// Reads "192.0.2.0/24", "2001:db8::/32" or an address. Errors: std::errc::invalid_argument.
  [[nodiscard]] static std::expected<ip_network, std::error_code> parse(
      std::string_view text) noexcept;
  /// Returns a text that parse() reads, always with a prefix length.
  [[nodiscard]] std::string to_string() const;

  /// Whether the address is in the block.
  [[nodiscard]] bool contains(const ip_address& address) const noexcept;
  [[nodiscard]] const ip_address& first_address() const noexcept { return first_address_; }
  [[nodiscard]] unsigned prefix_length() const noexcept { return prefix_length_; }

  friend auto operator<=>(const ip_network&, const ip_network&) noexcept = default;

 private:
  static ip_network read(std::string_view text);
  static bool is_valid(const ip_address& first_address, unsigned prefix_length) noexcept;

  ip_address first_address_;
  unsigned prefix_length_;
};

}  // namespace gyre::net
