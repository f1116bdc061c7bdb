// SPDX-License-Identifier: Apache-2.0
// split_host_text: divides "HOST:SERVICE" into its parts, for endpoint and host_port.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::net::detail {

/// The parts of "HOST:SERVICE".
struct host_text {
  std::string_view host;  ///< the host, without brackets
  std::uint16_t port;
  bool is_bracketed;  ///< whether the host was in brackets: then it can only be an IPv6 address

  /// Whether the text means every local address: no host, or "*".
  bool is_any() const noexcept { return !is_bracketed && (host.empty() || host == "*"); }
  /// Whether the host is "localhost" or ends in ".localhost" (RFC 6761), in any case of letters.
  bool is_localhost() const noexcept;
};

/// Whether `host` has the form of a name (see host_port::parse()).
bool may_be_name(std::string_view host) noexcept;

/// Divides "HOST:SERVICE". Reads /etc/services for the name of a service that is not built in.
/// Errors: std::errc::invalid_argument, resolve_errc::service_not_found.
std::expected<host_text, std::error_code> split_host_text(std::string_view text);

/// Returns "'TEXT', expected …" for the message of an exception about `text`. `allows_names`:
/// whether the name of a host would have been accepted.
std::string describe_expected_forms(std::string_view text, bool allows_names);

}  // namespace gyre::net::detail
