// SPDX-License-Identifier: Apache-2.0
// method: the methods of HTTP requests (RFC 9110, 9.3; RFC 5789). method_set: a set of methods.
//
//     using gyre::http::method;
//     if (gyre::http::method_of("GET") == method::get) serve();
//     gyre::http::method_set allowed{method::get, method::put};
//     std::string header = allowed.to_string();  // "GET, PUT"
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace gyre::http {

/// The method of a request.
enum class method : std::uint8_t {
  get,
  head,
  post,
  put,
  delete_,  // NOLINT(readability-identifier-naming): a keyword otherwise
  connect,
  options,
  trace,
  patch,
  other,  ///< a method that is not listed here
};

/// The method as it is written in a request; "" for method::other.
[[nodiscard]] constexpr std::string_view to_text(method value) noexcept {
  switch (value) {
    case method::get: return "GET";
    case method::head: return "HEAD";
    case method::post: return "POST";
    case method::put: return "PUT";
    case method::delete_: return "DELETE";
    case method::connect: return "CONNECT";
    case method::options: return "OPTIONS";
    case method::trace: return "TRACE";
    case method::patch: return "PATCH";
    case method::other: break;
  }
  return {};
}

/// The method with this name. Names are case-sensitive: "get" is method::other.
[[nodiscard]] constexpr method method_of(std::string_view name) noexcept {
  for (auto candidate = method::get; candidate != method::other;
       candidate = static_cast<method>(static_cast<std::uint8_t>(candidate) + 1)) {
    if (name == to_text(candidate)) return candidate;
  }
  return method::other;
}

/// Whether the method only reads (RFC 9110, 9.2.1).
[[nodiscard]] constexpr bool is_safe(method value) noexcept {
  return value == method::get || value == method::head || value == method::options ||
         value == method::trace;
}
/// Whether sending a request twice has the same effect as sending it once (RFC 9110, 9.2.2), so
/// that a client may repeat it.
[[nodiscard]] constexpr bool is_idempotent(method value) noexcept {
  return is_safe(value) || value == method::put || value == method::delete_;
}

/// A set of methods, such as those that a path allows.
///
/// Thread-safety: as a value; it has two bytes.
class method_set {
 public:
  constexpr method_set() noexcept = default;
  constexpr method_set(std::initializer_list<method> methods) noexcept {
    for (const method method : methods) add(method);
  }
  [[nodiscard]] static constexpr method_set all() noexcept {
    method_set set;
    set.bits_ = (1u << (static_cast<unsigned>(method::other) + 1)) - 1;
    return set;
  }

  /// Adds a method to the set.
  constexpr void add(method value) noexcept {
    bits_ = static_cast<std::uint16_t>(bits_ | bit(value));
  }
  constexpr void add(method_set methods) noexcept {
    bits_ = static_cast<std::uint16_t>(bits_ | methods.bits_);
  }
  [[nodiscard]] constexpr bool contains(method value) const noexcept {
    return (bits_ & bit(value)) != 0;
  }
  [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }

  /// The value of a header Allow: "GET, HEAD". Leaves out method::other, which has no name.
  [[nodiscard]] std::string to_string() const;

  friend constexpr bool operator==(method_set, method_set) noexcept = default;

 private:
  static constexpr unsigned bit(method value) noexcept {
    return 1u << static_cast<unsigned>(value);
  }

  std::uint16_t bits_ = 0;
};

}  // namespace gyre::http
