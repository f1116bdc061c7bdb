// SPDX-License-Identifier: Apache-2.0
// ip_address: an IPv4 or IPv6 address.
//
//     gyre::net::ip_address peer("2001:db8::7");
//     if (peer.is_loopback()) …
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::net {

/// An IPv4 address, or an IPv6 address with its scope: the number of an interface, 0 if none is
/// named. A value of 24 bytes, 0.0.0.0 by default. Ordered by version, bytes and scope.
class ip_address {
 public:
  using v4_bytes = std::array<std::uint8_t, 4>;  ///< the most significant first, as in all networks
  using v6_bytes = std::array<std::uint8_t, 16>;

  constexpr ip_address() noexcept = default;
  constexpr explicit ip_address(const v4_bytes& bytes) noexcept {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes_[i] = bytes[i];
  }
  constexpr explicit ip_address(const v6_bytes& bytes, std::uint32_t scope = 0) noexcept
      : version_(6), bytes_(bytes), scope_(scope) {}
  /// Constructs the address that parse() reads from `text`. Throws std::system_error:
  /// std::errc::invalid_argument, no_such_device.
  explicit ip_address(std::string_view text);

  /// Returns the address a.b.c.d.
  static constexpr ip_address v4(std::uint8_t a, std::uint8_t b, std::uint8_t c,
                                 std::uint8_t d) noexcept {
    return ip_address(v4_bytes{a, b, c, d});
  }

  /// Returns the wildcards 0.0.0.0 and ::, which stand for every local address in bind().
  static constexpr ip_address any_v4() noexcept { return ip_address(v4_bytes{}); }
  static constexpr ip_address any_v6() noexcept { return ip_address(v6_bytes{}); }
  /// Returns the loopback addresses 127.0.0.1 and ::1.
  static constexpr ip_address loopback_v4() noexcept { return v4(127, 0, 0, 1); }
  static constexpr ip_address loopback_v6() noexcept {
    return ip_address(v6_bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  }

  /// Reads "192.0.2.1" (four decimal numbers without leading zeros), "2001:db8::7", "fe80::1%eth0"
  /// or "fe80::1%2". Errors: std::errc::invalid_argument for other texts, no_such_device if no
  /// interface has that name. Complexity: system calls only for the name of an interface.
  [[nodiscard]] static std::expected<ip_address, std::error_code> parse(std::string_view text);
  /// Returns a text that parse() reads, in the form of RFC 5952, with a scope as a number.
  [[nodiscard]] std::string to_string() const;

  constexpr bool is_v4() const noexcept { return version_ == 4; }
  constexpr bool is_v6() const noexcept { return version_ == 6; }
  /// Returns the 4 or 16 bytes of the address, the most significant first.
  constexpr std::span<const std::uint8_t> bytes() const noexcept {
    return std::span(bytes_).first(is_v4() ? 4 : 16);
  }
  /// Returns the scope: the number of an interface, or 0 if none is named.
  constexpr std::uint32_t scope() const noexcept { return scope_; }

  /// Whether the address is ::ffff:a.b.c.d, as which an IPv6 socket sees an IPv4 peer.
  constexpr bool is_v4_mapped() const noexcept {
    if (!is_v6() || bytes_[10] != 0xff || bytes_[11] != 0xff) return false;
    for (std::size_t i = 0; i < 10; ++i) {
      if (bytes_[i] != 0) return false;
    }
    return true;
  }
  /// Returns the IPv4 address for a mapped address, and any other address unchanged.
  constexpr ip_address unmapped() const noexcept {
    return is_v4_mapped() ? v4(bytes_[12], bytes_[13], bytes_[14], bytes_[15]) : *this;
  }

  // The next five functions treat a mapped IPv4 address as the IPv4 address; comparison does not.

  /// Whether the address is 0.0.0.0 or ::, whatever its scope.
  constexpr bool is_any() const noexcept {
    const ip_address plain = unmapped();
    return plain == any_v4() || plain.without_scope() == any_v6();
  }
  /// Whether the address is in 127.0.0.0/8 or is ::1.
  constexpr bool is_loopback() const noexcept {
    const ip_address plain = unmapped();
    return plain.is_v4() ? plain.bytes_[0] == 127 : plain.without_scope() == loopback_v6();
  }
  /// Whether the address is in 224.0.0.0/4 or ff00::/8.
  constexpr bool is_multicast() const noexcept {
    const ip_address plain = unmapped();
    return plain.is_v4() ? plain.bytes_[0] >> 4 == 14 : plain.bytes_[0] == 0xff;
  }
  /// Whether the address is in 169.254.0.0/16, or in fe80::/10, which can be reached only with a
  /// scope.
  constexpr bool is_link_local() const noexcept {
    const ip_address plain = unmapped();
    return plain.is_v4() ? plain.bytes_[0] == 169 && plain.bytes_[1] == 254
                         : plain.bytes_[0] == 0xfe && plain.bytes_[1] >> 6 == 2;
  }
  /// Whether the address is in a private network: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 (RFC
  /// 1918), fc00::/7 (RFC 4193).
  constexpr bool is_private() const noexcept {
    const ip_address plain = unmapped();
    const auto& bytes = plain.bytes_;
    if (plain.is_v6()) return bytes[0] >> 1 == 0x7e;
    return bytes[0] == 10 || (bytes[0] == 172 && bytes[1] >> 4 == 1) ||
           (bytes[0] == 192 && bytes[1] == 168);
  }

  friend constexpr auto operator<=>(const ip_address&, const ip_address&) noexcept = default;
  friend std::ostream& operator<<(std::ostream& output, const ip_address& address);

 private:
  constexpr ip_address without_scope() const noexcept {
    ip_address plain = *this;
    plain.scope_ = 0;
    return plain;
  }

  std::uint8_t version_ = 4;
  v6_bytes bytes_{};  // an IPv4 address is in the first four bytes; the others are zero
  std::uint32_t scope_ = 0;
};

/// Whether the last label of a host is a number, decimal or with "0x" in front: such a host is not
/// a name, but an IPv4 address (the URL Standard's "ends in a number"), and ip_address::parse()
/// decides which. Other numbers that inet_aton(3) takes for addresses ("127.1", "0x7f.1",
/// "017700000001") are refused by endpoints, resolvers and URLs, because filters that compare texts
/// overlook them.
bool ends_in_number(std::string_view host) noexcept;

}  // namespace gyre::net

template <>
struct std::hash<gyre::net::ip_address> {
  std::size_t operator()(const gyre::net::ip_address& address) const noexcept;
};
