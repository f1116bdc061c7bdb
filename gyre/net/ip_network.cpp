// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/ip_network.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/net/detail/errors.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace gyre::net {
namespace {

// Whether the first `count` bits of the addresses are equal.
bool have_equal_bits(std::span<const std::uint8_t> left, std::span<const std::uint8_t> right,
                     unsigned count) noexcept {
  const std::size_t whole_bytes = count / 8;
  if (!std::ranges::equal(left.first(whole_bytes), right.first(whole_bytes))) return false;
  const unsigned rest = count % 8;
  return rest == 0 || (left[whole_bytes] ^ right[whole_bytes]) >> (8 - rest) == 0;
}

unsigned bits_of(const ip_address& address) noexcept {
  return static_cast<unsigned>(address.bytes().size()) * 8;
}

}  // namespace

ip_network::ip_network(const ip_address& first_address, unsigned prefix_length)
    : first_address_(first_address), prefix_length_(prefix_length) {
  constexpr unsigned mapped_bits = 96;
  if (first_address.is_v4_mapped() && prefix_length >= mapped_bits) {
    first_address_ = first_address.unmapped();
    prefix_length_ -= mapped_bits;
  }
  if (!is_valid(first_address_, prefix_length_)) {
    throw std::invalid_argument("gyre::net::ip_network: no network begins at " +
                                first_address.to_string() + " with " +
                                std::to_string(prefix_length) + " bits");
  }
}

ip_network ip_network::read(std::string_view text) {
  const auto network = parse(text);
  if (network) return *network;
  throw std::invalid_argument("gyre::net::ip_network: '" + std::string(text) +
                              "' is no network such as 192.0.2.0/24");
}

std::expected<ip_network, std::error_code> ip_network::parse(std::string_view text) noexcept {
  const auto failure = detail::failure(std::errc::invalid_argument);
  const std::size_t slash = text.find('/');
  if (text.contains('%')) return failure;  // the address has a scope, which a network cannot have
  const auto address = ip_address::parse(text.substr(0, slash));
  if (!address) return failure;
  unsigned prefix_length = bits_of(*address);
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto number = gyre::detail::parse_decimal<unsigned>(digits);
    const bool has_leading_zero = digits.size() > 1 && digits[0] == '0';
    if (!number || has_leading_zero) return failure;
    prefix_length = *number;
  }
  if (!is_valid(*address, prefix_length)) return failure;
  return ip_network(*address, prefix_length);
}

// Whether the prefix is not longer than the address, and all bits after the prefix are zero.
bool ip_network::is_valid(const ip_address& first_address, unsigned prefix_length) noexcept {
  if (prefix_length > bits_of(first_address) || first_address.scope() != 0) return false;
  const auto bytes = first_address.bytes();
  for (unsigned bit = prefix_length; bit < bits_of(first_address); ++bit) {
    if ((bytes[bit / 8] >> (7 - bit % 8) & 1U) != 0) return false;
  }
  return true;
}

bool ip_network::contains(const ip_address& address) const noexcept {
  const ip_address unmapped_address = address.unmapped();
  return unmapped_address.is_v4() == first_address_.is_v4() &&
         have_equal_bits(unmapped_address.bytes(), first_address_.bytes(), prefix_length_);
}

std::string ip_network::to_string() const {
  return first_address_.to_string() + '/' + std::to_string(prefix_length_);
}

}  // namespace gyre::net
