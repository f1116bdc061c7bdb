// SPDX-License-Identifier: Apache-2.0
// Conditional requests (RFC 9110, 13): entity tags, If-Match, If-None-Match, If-Modified-Since,
// If-Unmodified-Since and If-Range.
//
//     const gyre::http::validators now{.entity_tag = "\"v7\"", .last_modified = changed};
//     switch (gyre::http::evaluate(method::get, {.if_none_match = "\"v7\""}, now)) {
//       case condition_outcome::proceed: co_return send_body();
//       case condition_outcome::not_modified: co_return send_304();
//       case condition_outcome::precondition_failed: co_return send_412();
//     }
#pragma once

#include <gyre/http/method.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::http {

/// The headers of a request that make it conditional, those that it has. Headers that occur several
/// times are joined by ", ".
struct conditions {
  std::optional<std::string_view> if_match = {};
  std::optional<std::string_view> if_none_match = {};
  std::optional<std::string_view> if_modified_since = {};
  std::optional<std::string_view> if_unmodified_since = {};
};

/// The state of a resource, to which conditions are compared.
struct validators {
  std::string_view entity_tag = {};  ///< with quotes: "\"a\"", "W/\"a\""; empty if it has none
  std::optional<std::chrono::sys_seconds> last_modified = {};
  /// Whether the program knows that the resource has not changed twice in the second of
  /// `last_modified`. Only then does the date tell versions apart (RFC 9110, 8.8.2.2).
  bool last_modified_is_strong = false;
  bool exists = true;  ///< false: the request would create it
};

/// How a conditional request is to be answered.
enum class condition_outcome : std::uint8_t {
  proceed,
  not_modified,         ///< 304
  precondition_failed,  ///< 412
};

/// The outcome of all conditions, in the order of RFC 9110, 13.2.2. Dates that are malformed are
/// ignored; a malformed list of entity tags matches nothing, and fails a request that is not GET or
/// HEAD. Call it only if the response without conditions would have a status of 2xx or 412.
///
/// Complexity: linear; allocates nothing.
[[nodiscard]] condition_outcome evaluate(method request_method, const conditions& request,
                                         const validators& resource) noexcept;

/// Whether the header Range counts although there is a header If-Range: its entity tag is strong
/// and equal; or its date is equal, strong (validators::last_modified_is_strong), and at least a
/// second ago, so that no change can still come within it. Otherwise the client would put parts of
/// two versions together. `reference_time`: the time of the response.
[[nodiscard]] bool if_range_holds(std::string_view if_range, const validators& resource,
                                  std::chrono::sys_seconds reference_time) noexcept;

/// Whether the text is an entity tag, "\"abc\"" or "W/\"abc\"".
[[nodiscard]] bool is_entity_tag(std::string_view text) noexcept;
/// The comparisons of RFC 9110, 8.8.3.2: strong, if both are strong and equal; weak, if they are
/// equal without "W/".
[[nodiscard]] bool is_strongly_equal(std::string_view left, std::string_view right) noexcept;
[[nodiscard]] bool is_weakly_equal(std::string_view left, std::string_view right) noexcept;

}  // namespace gyre::http
