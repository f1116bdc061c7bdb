// SPDX-License-Identifier: Apache-2.0
// host_port: "HOST:SERVICE" as people type it, which is an endpoint or a name to resolve.
//
//     gyre::net::host_port server = "example.org:https";
//     if (server.is_name()) addresses = co_await names.resolve(server.host(), server.port());
#pragma once

#include <gyre/net/endpoint.hpp>
#include <gyre/net/service.hpp>

#include <concepts>
#include <cstdint>
#include <expected>
#include <iosfwd>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gyre::net {

/// A destination of clients: an endpoint, or the name of a host and a port. A value, constructed
/// from any text that endpoint::parse() reads, or from a name: "example.org:80", "localhost:http".
///
/// Without a host (":80", "*:80") it is "localhost", which stands for both loopback addresses; an
/// endpoint, which a server binds, is the wildcard address or 127.0.0.1 instead.
class host_port {
 public:
  /// Constructs what parse() reads from the text. Throws std::system_error with the text and the
  /// forms that are accepted.
  template <std::convertible_to<std::string_view> Text>
  host_port(const Text& text) : host_port(read(text)) {}
  host_port(const endpoint& server) noexcept : direct_(server), port_(server.port()) {}
  /// `host`: an address, or a name. Throws std::system_error: resolve_errc::service_not_found,
  /// std::errc::invalid_argument for a text that can be neither, no_such_device for the reason that
  /// ip_address::parse() documents.
  host_port(std::string host, service port);

  /// Reads what endpoint::parse() reads, and "NAME:SERVICE". A name consists of ASCII letters,
  /// digits, '-', '_' and '.', and of bytes beyond ASCII; its last label is not a number, so that
  /// "300.1.1.1:80" is not a name (resolve_errc::numeric_host). Only a resolver finds out whether
  /// there is such a host.
  ///
  /// Errors: those of endpoint::parse(). Complexity: as endpoint::parse().
  [[nodiscard]] static std::expected<host_port, std::error_code> parse(std::string_view text);
  /// Returns a text that parse() reads.
  [[nodiscard]] std::string to_string() const;

  /// Whether there is a name to be resolved, instead of an endpoint().
  bool is_name() const noexcept { return !host_.empty(); }
  /// Returns the name; empty unless is_name().
  const std::string& host() const noexcept { return host_; }
  /// Returns the port in host order; 0 for a Unix socket.
  std::uint16_t port() const noexcept { return port_; }
  /// Returns the endpoint, or none if is_name().
  const endpoint& direct() const noexcept { return direct_; }
  /// Returns the endpoints that are known without a resolver: direct(), or those of "localhost" and
  /// names under it ([::1] and 127.0.0.1, RFC 6761). Returns none for other names. Allocates.
  [[nodiscard]] std::vector<endpoint> known_endpoints() const;

  friend bool operator==(const host_port&, const host_port&) = default;
  friend std::ostream& operator<<(std::ostream& output, const host_port& target);

 private:
  host_port() noexcept = default;
  static host_port read(std::string_view text);
  static std::expected<host_port, std::error_code> made_of(std::string_view host,
                                                           std::uint16_t port);

  endpoint direct_;
  std::string host_;
  std::uint16_t port_ = 0;
};

}  // namespace gyre::net
