// SPDX-License-Identifier: Apache-2.0
// cookie_jar: the cookies that a client has received, and those that it sends with a request.
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

/// A header Set-Cookie, read as RFC 6265bis, 5.6, says.
struct received_cookie {
  std::string name;
  std::string value;
  std::string domain = {};  ///< in lower case, without a dot in front; empty: none
  std::string path = {};    ///< empty: none
  std::optional<std::chrono::sys_seconds> expires = {};
  std::optional<std::chrono::seconds> max_age = {};  ///< counts before `expires`
  bool secure = false;
  bool http_only = false;

  /// Nothing for a header without a name, with control characters, or of more than 8 KiB. Unknown
  /// and malformed attributes are ignored.
  [[nodiscard]] static std::optional<received_cookie> parse(std::string_view header);
};

/// Limits of a cookie_jar.
struct cookie_jar_options {
  std::size_t max_cookies = 1000;
  std::size_t max_cookies_per_host = 50;  ///< by the host or domain that they are for
  std::size_t max_cookie_size = 4096;     ///< bytes of a name and its value
};

/// Cookies of many hosts. At a limit, a new cookie replaces the oldest one without Secure. If all
/// have Secure, a cookie with Secure replaces the oldest, and one without is not kept.
///
/// The jar knows no list of public suffixes. It refuses cookies for domains of a single label, such
/// as "com", and accepts them for "co.uk", so that one host there could set cookies for all others:
/// keep a jar for each service if you do not trust hosts of different owners. A cookie without
/// Domain is sent to its own host only.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Errors: std::bad_alloc.
/// Complexity: linear in the number of cookies.
class cookie_jar {
 public:
  using time_point = std::chrono::sys_seconds;

  explicit cookie_jar(cookie_jar_options options = {}) noexcept : options_(options) {}

  /// Takes a header Set-Cookie of the response to a request for `sender`. False if it is refused:
  /// malformed, larger than the limit, for another domain, Secure without TLS, in the way of a
  /// Secure cookie, or with a name "__Secure-…" or "__Host-…" without what these promise.
  bool receive(const url& sender, std::string_view set_cookie_header,
               time_point time = system_time());

  /// The value of the header Cookie of a request, longer paths first; empty without cookies.
  /// Expired cookies are dropped.
  [[nodiscard]] std::string header_for(const url& target, time_point time = system_time());

  [[nodiscard]] std::size_t size() const noexcept { return cookies_.size(); }
  void clear() noexcept { cookies_.clear(); }

 private:
  struct stored {
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
  static std::optional<stored> accept(const url& sender, received_cookie& cookie, time_point time);
  bool hides_secure_cookie(const url& sender, const stored& cookie) const;
  void store(stored cookie, time_point time);
  bool evict_for(const stored& cookie);

  cookie_jar_options options_;
  std::vector<stored> cookies_;  // in the order of their creation
};

}  // namespace gyre::http
