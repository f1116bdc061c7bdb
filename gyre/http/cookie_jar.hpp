// SPDX-License-Identifier: Apache-2.0
// cookie_jar: stores the cookies that a client receives, and selects those to send with a request.
//
//     gyre::http::cookie_jar jar;
//     jar.receive(page, "session=31d4; Path=/; Secure");  // a header Set-Cookie of a response
//     std::string header = jar.header_for(page);          // "session=31d4", for a header Cookie
#pragma once

#include <gyre/base/detail/system_clocks.hpp>
#include <gyre/http/url.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::http {

/// A header Set-Cookie, parsed as specified by RFC 6265bis, 5.6.
struct received_cookie {
  std::string name;
  std::string value;
  std::string domain = {};  ///< in lower case, without a leading dot; empty: none
  std::string path = {};    ///< empty: none
  std::optional<std::chrono::sys_seconds> expires = {};
  std::optional<std::chrono::seconds> max_age = {};  ///< takes precedence over `expires`
  bool secure = false;
  bool http_only = false;

  /// Returns nothing for a header that has no name or contains control characters, or of more than
  /// 8 KiB. Unknown and malformed attributes are ignored.
  [[nodiscard]] static std::optional<received_cookie> parse(std::string_view header);
};

/// Limits of a cookie_jar.
struct cookie_jar_options {
  std::size_t max_cookies = 1000;         ///< cookies of all hosts together
  std::size_t max_cookies_per_host = 50;  ///< counted by the host or domain of the cookies
  std::size_t max_cookie_size = 4096;     ///< bytes of a name and its value together
};

/// A store for the cookies of many hosts. When a limit is reached, a new cookie replaces the oldest
/// one without Secure. If all stored cookies are Secure, a new Secure cookie replaces the oldest
/// one, and a new cookie without Secure is refused.
///
/// The jar has no list of public suffixes. It refuses cookies for domains of a single label, such
/// as "com", but accepts them for "co.uk", where one host could thus set cookies for all others:
/// use a jar for each service if hosts of different owners do not trust one another. A cookie
/// without Domain is sent to its own host only.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Errors: std::bad_alloc.
/// Complexity: linear in the number of cookies.
class cookie_jar {
 public:
  using time_point = std::chrono::sys_seconds;

  explicit cookie_jar(cookie_jar_options options = {}) noexcept : options_(options) {}

  /// Stores the cookie of a header Set-Cookie in a response of `sender`. Returns false if the
  /// cookie is refused: malformed, larger than the limit, for another domain, Secure without TLS,
  /// in conflict with a Secure cookie, or with a name "__Secure-…" or "__Host-…" without the
  /// attributes that these prefixes require.
  bool receive(const url& sender, std::string_view set_cookie_header,
               time_point time = system_time());

  /// Returns the value of the header Cookie for a request to `target`, longer paths first; empty if
  /// there are no cookies for it. Removes expired cookies.
  [[nodiscard]] std::string header_for(const url& target, time_point time = system_time());

  [[nodiscard]] std::size_t size() const noexcept { return cookies_.size(); }
  void clear() noexcept { cookies_.clear(); }

 private:
  struct stored_cookie {
    std::string name;
    std::string value;
    std::string domain;
    std::string path;
    time_point expires;
    bool host_only;
    bool secure;
  };

  static time_point system_time() noexcept {
    return std::chrono::floor<std::chrono::seconds>(gyre::detail::wall_now());
  }
  static std::optional<stored_cookie> accept(const url& sender, received_cookie& cookie,
                                             time_point time);
  bool hides_secure_cookie(const url& sender, const stored_cookie& cookie) const;
  void store(stored_cookie cookie, time_point time);
  bool evict_for(const stored_cookie& cookie);

  cookie_jar_options options_;
  std::vector<stored_cookie> cookies_;  // ordered by creation, the oldest first
};

}  // namespace gyre::http
