// SPDX-License-Identifier: Apache-2.0
// proxy_settings: the proxies of a client. proxy_from_environment(): the proxies set for the
// process.
//
//     gyre::http::client_options options;
//     options.proxy = gyre::http::proxy_from_environment();
//     gyre::http::client client(loop, options);
#pragma once

#include <gyre/http/url.hpp>

#include <optional>
#include <string>
#include <vector>

namespace gyre::http {

/// The proxies that a client uses; a value. The URL of a proxy is "http://user:password@host:port".
/// The user and password, if present, are sent to the proxy only (Basic, in Proxy-Authorization).
struct proxy_settings {
  /// The proxy of http URLs.
  std::optional<url> http = {};
  /// The proxy of https URLs, used through a tunnel (CONNECT).
  std::optional<url> https = {};
  /// Hosts that are reached without a proxy:
  /// - "example.org", ".example.org" and "*.example.org": the host and its subdomains;
  /// - "example.org:8080": only this port of them;
  /// - "10.0.0.1", "[::1]:8080", and blocks (CIDR) such as "10.0.0.0/8" and "fd00::/8": URLs whose
  ///   host is such an address; names are not resolved for this;
  /// - "*": all hosts.
  ///
  /// Other entries match nothing.
  std::vector<std::string> no_proxy = {};
  /// Whether http URLs, too, are reached through a tunnel.
  bool tunnel_http = false;

  /// The proxy for the URL; null: none.
  [[nodiscard]] const url* proxy_for(const url& target) const noexcept;
};

/// Reads http_proxy (only in lower case, because a CGI client can set HTTP_PROXY), https_proxy or
/// HTTPS_PROXY, and no_proxy or NO_PROXY. A proxy without a scheme is an http proxy.
///
/// Thread-safety: no other thread may change the environment during the call.
/// Errors: std::system_error, whose message names the variable, for a malformed URL or a scheme
/// other than http.
[[nodiscard]] proxy_settings proxy_from_environment();

}  // namespace gyre::http
