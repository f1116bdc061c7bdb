// SPDX-License-Identifier: Apache-2.0
// server_address: a NATS server as people type it.
#pragma once

#include <gyre/net/host_port.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace gyre::nats::detail {

/// "[nats://|tls://][USER[:PASSWORD]@]HOST[:PORT]": a user without a password is a token.
struct server_address {
  net::host_port server;
  bool demands_tls = false;
  std::string user = {};
  std::string password = {};
  std::string token = {};

  /// Throws std::system_error (std::errc::invalid_argument, errors of host_port) with the text,
  /// without its user and password.
  static server_address parse(std::string_view text);
  /// Each of the texts may have several, with commas between them. At least one; otherwise throws
  /// std::invalid_argument.
  static std::vector<server_address> parse_all(const std::vector<std::string>& texts);

  /// Returns the name or the address without a port.
  std::string host() const;
};

}  // namespace gyre::nats::detail
