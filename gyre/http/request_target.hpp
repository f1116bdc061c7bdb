// SPDX-License-Identifier: Apache-2.0
// request_target: the request target of a request line, in its four forms (RFC 9112, 3.2).
//
//     auto target = gyre::http::request_target::parse(method::get, "/files/a%20b?page=2");
//     if (!target) co_return bad_request();
//     std::string_view path = target->path();    // "/files/a%20b"
//     std::string_view query = target->query();  // "page=2"
#pragma once

#include <gyre/http/method.hpp>

#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>
#include <system_error>

namespace gyre::http {
namespace detail {
class exchange;
}  // namespace detail

/// The forms of a request target (RFC 9112, 3.2).
enum class target_form : std::uint8_t {
  origin,     ///< "/path?query"
  absolute,   ///< "http://host/path?query", sent to proxies
  authority,  ///< "host:port", only for CONNECT
  asterisk,   ///< "*", only for OPTIONS requests for the server itself
};

/// A host with an optional port, as in a header Host and in URLs; both parts as they were sent.
struct authority {
  /// The host; an IPv6 address without its brackets.
  std::string_view host;
  std::optional<std::uint16_t> port = {};
  bool is_ipv6 = false;  ///< whether the host was in brackets

  /// Reads "name", "name:80", "192.0.2.1" or "[2001:db8::7]:80"; "name:" has no port. A name
  /// consists of ASCII letters, digits, '-', '_' and '.', with at most 253 characters and 63 in
  /// each label.
  ///
  /// Errors: format_errc::bad_host, host_not_ascii, bad_port.
  [[nodiscard]] static std::expected<authority, std::error_code> parse(std::string_view text);

  friend bool operator==(const authority&, const authority&) = default;
};

/// A view of the parts of a request target. Parts that its form does not have are empty.
///
/// Thread-safety: as a value.
/// Lifetime: the text must outlive the object.
class request_target {
 public:
  /// Parses the target of a request with this method. CONNECT requires the authority form; only
  /// OPTIONS may have the asterisk form; all other methods have the origin or the absolute form.
  /// Accepts visible ASCII characters except '#'. Refuses user information in the absolute form
  /// (RFC 9110, 4.2.4).
  ///
  /// Errors: format_errc::bad_target, bad_character, bad_host, host_not_ascii, bad_port.
  /// Complexity: reads the text once; allocates nothing.
  [[nodiscard]] static std::expected<request_target, std::error_code> parse(method request_method,
                                                                            std::string_view text);

  [[nodiscard]] target_form form() const noexcept { return form_; }
  /// The scheme of the absolute form, "http" or "https", in the case in which it was written.
  [[nodiscard]] std::string_view scheme() const noexcept { return scheme_; }
  /// The host and port of the absolute form, which replaces the header Host (RFC 9112, 3.2.2), or
  /// of the authority form.
  [[nodiscard]] const gyre::http::authority& authority() const noexcept { return authority_; }
  /// The path, still encoded and without '?'; begins with '/' in the origin and absolute forms. "*"
  /// for OPTIONS requests for the server itself: in the asterisk form, and in the absolute form
  /// without a path.
  [[nodiscard]] std::string_view path() const noexcept { return path_; }
  /// The query, still encoded and without '?'; see query::parse().
  [[nodiscard]] std::string_view query() const noexcept { return query_; }
  [[nodiscard]] bool has_query() const noexcept { return has_query_; }

 private:
  friend class detail::exchange;
  // Parses a text that has only visible characters.
  static std::expected<request_target, std::error_code> parse_visible(method request_method,
                                                                      std::string_view text);
  void split_path(std::string_view text) noexcept;

  std::string_view scheme_;
  gyre::http::authority authority_ = {};
  std::string_view path_;
  std::string_view query_;
  target_form form_ = target_form::origin;
  bool has_query_ = false;
};

}  // namespace gyre::http
