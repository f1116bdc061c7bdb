// SPDX-License-Identifier: Apache-2.0
// cookies: a view of the header Cookie. set_cookie: builds the header Set-Cookie (RFC 6265bis).
//
//     const gyre::http::cookies sent("theme=dark; session=31d4");
//     std::string_view session = sent.get("session").value_or("");
//
//     std::string header = gyre::http::set_cookie("session", "31d4").max_age(1h).to_string();
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::http {

/// The name and value of a cookie in a request.
struct cookie_pair {
  std::string_view name;
  std::string_view value;

  friend bool operator==(const cookie_pair&, const cookie_pair&) = default;
};

/// A view of the pairs of a header Cookie. Malformed pairs, such as "a" without '=' or pairs with
/// forbidden characters, are skipped: other programs on the same domain may have set them. At most
/// max_pairs pairs are read.
///
/// Thread-safety: as a value.
/// Lifetime: the text must outlive the view.
/// Complexity: get() and a whole iteration read the text once; nothing is allocated.
class cookies {
 public:
  static constexpr std::size_t max_pairs = 200;

  class iterator {
   public:
    using value_type = cookie_pair;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::forward_iterator_tag;

    iterator() noexcept = default;
    const cookie_pair& operator*() const noexcept { return pair_; }
    const cookie_pair* operator->() const noexcept { return &pair_; }
    iterator& operator++() noexcept {
      advance();
      return *this;
    }
    iterator operator++(int) noexcept {
      const iterator old_position = *this;
      advance();
      return old_position;
    }
    friend bool operator==(const iterator& left, const iterator& right) noexcept {
      return left.is_at_end_ == right.is_at_end_ && left.rest_.size() == right.rest_.size();
    }

   private:
    friend cookies;
    explicit iterator(std::string_view text) noexcept : rest_(text) { advance(); }
    void advance() noexcept;

    std::string_view rest_;
    cookie_pair pair_ = {};
    std::size_t pair_count_ = 0;
    bool is_at_end_ = true;
  };

  explicit cookies(std::string_view header) noexcept : header_(header) {}

  [[nodiscard]] iterator begin() const noexcept { return iterator(header_); }
  [[nodiscard]] iterator end() const noexcept { return {}; }
  /// The value of the first cookie with this name, without decoding. Names are case-sensitive.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const noexcept;

 private:
  std::string_view header_;
};

/// Whether browsers send a cookie with requests that other sites initiate.
enum class same_site : std::uint8_t {
  strict,  ///< never
  lax,     ///< when the user follows a link
  none,    ///< always; such a cookie must be secure
};

/// Builds the value of a header Set-Cookie. By default the cookie is Secure (sent only over TLS and
/// to localhost), HttpOnly (hidden from scripts) and SameSite=Lax; it is valid until the browser
/// ends, and for all paths of this host only.
///
/// Thread-safety: none; may be handed from thread to thread.
/// Errors: std::invalid_argument, whose message names the cookie:
/// - for a name that is not a token;
/// - for forbidden characters (blanks, '"', ',', ';', '\' and bytes beyond ASCII: encode them);
/// - for a name and value of more than 4096 bytes, and for a path of more than 1024 bytes;
/// - from to_string(), for SameSite=None without Secure, and for a name that begins with
///   "__Secure-" or "__Host-" without the attributes that these prefixes require.
class set_cookie {
 public:
  static constexpr std::size_t max_size = 4096;

  set_cookie(std::string_view name, std::string_view value);
  /// Returns a header that deletes a cookie. Set the path and domain with which the cookie was set.
  [[nodiscard]] static set_cookie deletion(std::string_view name);

  /// Sets the path to which, and below which, the cookie is sent. It begins with '/'; default: "/".
  set_cookie& path(std::string_view path);
  /// Sets a domain: the cookie is sent to this host and to all its subdomains.
  set_cookie& domain(std::string_view domain);
  /// Sets the lifetime, rounded up to whole seconds. If it is not positive, the browser deletes the
  /// cookie.
  set_cookie& max_age(duration age) noexcept;
  /// Sets whether browsers send the cookie only over TLS.
  set_cookie& secure(bool only_over_tls) noexcept;
  /// Sets whether the cookie is hidden from scripts of pages.
  set_cookie& http_only(bool hidden_from_scripts) noexcept;
  /// Sets the requests of other sites with which browsers send the cookie.
  set_cookie& same_site(gyre::http::same_site sites) noexcept;

  [[nodiscard]] std::string to_string() const;

 private:
  [[noreturn]] void refuse(std::string_view reason) const;
  void check() const;

  std::string name_;
  std::string value_;
  std::string path_ = "/";
  std::string domain_;
  std::optional<std::chrono::seconds> max_age_;
  bool secure_ = true;
  bool http_only_ = true;
  gyre::http::same_site same_site_ = gyre::http::same_site::lax;
};

}  // namespace gyre::http
