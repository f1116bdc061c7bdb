// SPDX-License-Identifier: Apache-2.0
// service: a port, by its number or by the name of a service.
//
//     gyre::net::service secure = "https";
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::net {

/// A port for resolve() and connect(): a number, also as a text, or the name of a service ("https";
/// of any protocol). Names of common services are built in; the conversion of another name reads
/// /etc/services, which blocks.
///
/// Thread-safety: that of a value; names may be converted on any thread.
/// Errors: only std::bad_alloc; an unknown name gives no port().
class service {
 public:
  service(std::uint16_t port) noexcept : port_(port) {}
  template <std::convertible_to<std::string_view> Text>
  service(const Text& name) : port_(find(name)) {}

  /// Returns the port, or nothing if there is no service of that name.
  std::optional<std::uint16_t> port() const noexcept { return port_; }

 private:
  static std::optional<std::uint16_t> find(std::string_view name);
  std::optional<std::uint16_t> port_;
};

}  // namespace gyre::net
