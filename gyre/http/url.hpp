// SPDX-License-Identifier: Apache-2.0
// url: an absolute URL with a host (RFC 3986).
//
//     auto server = gyre::http::url::parse("https://example.org:8443/a?page=2").value();
//     std::string_view host = server.host();       // "example.org"
//     std::uint16_t port = server.port();          // 8443
//     std::string target = server.target();        // "/a?page=2"
//     auto next = server.resolve("../b").value();  // https://example.org:8443/b
#pragma once

#include <gyre/http/percent_encoding.hpp>
#include <gyre/http/query.hpp>
#include <gyre/http/request_target.hpp>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <system_error>

namespace gyre::http {

/// Returns the default port of http, https, ws and wss; 0 for other schemes.
[[nodiscard]] std::uint16_t default_port(std::string_view scheme) noexcept;

/// A parsed URL; a value. Scheme and host are in lower case, and the path has no "." and ".."
/// segments; the other parts stay encoded as they were written.
///
/// Thread-safety: as a value.
/// Lifetime: views are valid until the object is changed, moved or destroyed.
/// Complexity: parse() and resolve() are linear and allocate the result.
class url {
 public:
  static constexpr std::size_t max_size = 64 * 1024;

  /// Reads "scheme://user@host:port/path?query#fragment"; everything but scheme and host may be
  /// missing. Nothing is repaired: blanks, '\', and characters that must be percent-encoded are
  /// errors. Internationalised names must be written as "xn--…".
  ///
  /// Errors: format_errc::no_scheme, bad_host, host_not_ascii, bad_port, bad_character,
  /// bad_percent_encoding, too_long (more than max_size).
  [[nodiscard]] static std::expected<url, std::error_code> parse(std::string_view text);

  /// Resolves a reference relative to this URL (RFC 3986, 5.2), such as the value of a header
  /// Location: "https://other/", "//other/", "/path", "path", "?query" or "#fragment". The user is
  /// kept only if the scheme, host and port stay the same.
  ///
  /// Errors: those of parse().
  [[nodiscard]] std::expected<url, std::error_code> resolve(std::string_view reference) const;

  [[nodiscard]] std::string_view scheme() const noexcept { return scheme_; }
  /// Returns "user" or "user:password", still encoded; empty if there is none. Do not log it.
  [[nodiscard]] std::string_view user_info() const noexcept { return user_info_; }
  /// The name or address; IPv6 addresses without brackets.
  [[nodiscard]] std::string_view host() const noexcept { return host_; }
  [[nodiscard]] bool is_ipv6() const noexcept { return host_.contains(':'); }
  /// The port of the URL, or the default port of its scheme; 0 if the scheme has none.
  [[nodiscard]] std::uint16_t port() const noexcept {
    return port_ != 0 ? port_ : default_port(scheme_);
  }
  /// The path, still encoded; "/" if the URL has none.
  [[nodiscard]] std::string_view path() const noexcept { return path_; }
  [[nodiscard]] std::string_view query() const noexcept { return query_; }
  [[nodiscard]] std::string_view fragment() const noexcept { return fragment_; }
  [[nodiscard]] bool has_query() const noexcept { return has_query_; }

  /// Returns the origin form of a request target: "/path?query".
  [[nodiscard]] std::string target() const;
  /// Returns the value of a header Host: "host", or "host:port" if the port is not the scheme's
  /// default.
  [[nodiscard]] std::string authority() const;
  /// Returns "scheme://host:port/path?query#fragment", without the user.
  [[nodiscard]] std::string to_string() const;
  /// Whether the scheme, host and port are equal (RFC 6454).
  [[nodiscard]] bool has_origin_of(const url& other) const noexcept {
    return scheme_ == other.scheme_ && host_ == other.host_ && port() == other.port();
  }

  friend bool operator==(const url&, const url&) = default;

 private:
  url() = default;
  std::error_code read_authority(std::string_view text);
  std::error_code read_rest(std::string_view text, std::string_view directory);

  std::string scheme_;
  std::string user_info_;
  std::string host_;
  std::string path_;
  std::string query_;
  std::string fragment_;
  std::uint16_t port_ = 0;  // 0 if the URL names no port
  bool has_query_ = false;
};

/// Returns the path without "." and ".." segments (RFC 3986, 5.2.4): "/a/./b/../c" becomes "/a/c".
/// Segments with encoded dots are removed, too. A path that begins with '/' still begins with '/'.
[[nodiscard]] std::string remove_dot_segments(std::string_view path);

}  // namespace gyre::http
