// SPDX-License-Identifier: Apache-2.0
// proxy_settings: the proxies that a client uses; proxy_from_environment(), those of the system.
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

/// The proxies of a client; a value. The URL of a proxy is "http://user:password@host:port"; the
/// user, if there is one, is sent to it only (Basic, in Proxy-Authorization).
struct proxy_settings {
  /// The proxy of http URLs.
  std::optional<url> http = {};
  /// The proxy of https URLs, by a tunnel (CONNECT).
  std::optional<url> https = {};
  /// Hosts that are reached without a proxy: "example.org", ".example.org" and "*.example.org"
  /// stand for it and its subdomains, "example.org:8080" for a port of it, "*" for all. URLs with
  /// an address match "10.0.0.1", "[::1]:8080", and blocks (CIDR) such as "10.0.0.0/8" and
  /// "fd00::/8"; names are not looked up for that. Other entries match nothing.
  std::vector<std::string> no_proxy = {};
  /// Whether http URLs, too, are reached by a tunnel.
  bool tunnel_http = false;

  /// The proxy for a URL; null: none.
  [[nodiscard]] const url* proxy_for(const url& target) const noexcept;
};

/// Reads http_proxy (in lower case only, as HTTP_PROXY can be set by a CGI client), https_proxy or
/// HTTPS_PROXY, and no_proxy or NO_PROXY; a proxy without a scheme is http. Reads the environment,
/// so no other thread may change it meanwhile.
///
/// Errors: std::system_error with the variable's name for a URL that is none or not http.
[[nodiscard]] proxy_settings proxy_from_environment();

}  // namespace gyre::http
