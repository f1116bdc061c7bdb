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

/// The conditional headers of a request; nullopt for absent ones. If a header occurs several times,
/// join its values by ", ".
struct conditions {
  std::optional<std::string_view> if_match = {};
  std::optional<std::string_view> if_none_match = {};
  std::optional<std::string_view> if_modified_since = {};
  std::optional<std::string_view> if_unmodified_since = {};
};

/// The current state of a resource, against which conditions are evaluated.
struct validators {
  std::string_view entity_tag = {};  ///< with quotes: "\"a\"", "W/\"a\""; empty if it has none
  std::optional<std::chrono::sys_seconds> last_modified = {};
  /// Whether the program knows that the resource did not change twice in the second of
  /// `last_modified`. Only then does the date distinguish versions (RFC 9110, 8.8.2.2).
  bool last_modified_is_strong = false;
  bool exists = true;  ///< false: the resource does not exist, and the request would create it
};

/// How to respond to a conditional request.
enum class condition_outcome : std::uint8_t {
  proceed,
  not_modified,         ///< 304
  precondition_failed,  ///< 412
};

/// Evaluates all conditions in the order of RFC 9110, 13.2.2. Malformed dates are ignored. A
/// malformed list of entity tags matches nothing, and fails a request other than GET and HEAD. Call
/// it only if the response without conditions would have a status of 2xx or 412.
///
/// Complexity: linear; allocates nothing.
[[nodiscard]] condition_outcome evaluate(method request_method, const conditions& request,
                                         const validators& resource) noexcept;

/// Whether to honour the header Range of a request that has the header If-Range. True if its entity
/// tag is strong and equal; or if its date is equal, strong (validators::last_modified_is_strong),
/// and at least a second before `reference_time`, so that no change can still fall into the second
/// of that date. Otherwise the client might combine parts of two versions. `reference_time` is the
/// time of the response.
[[nodiscard]] bool if_range_holds(std::string_view if_range, const validators& resource,
                                  std::chrono::sys_seconds reference_time) noexcept;

/// Whether the text is an entity tag, "\"abc\"" or "W/\"abc\"".
[[nodiscard]] bool is_entity_tag(std::string_view text) noexcept;
/// The comparisons of RFC 9110, 8.8.3.2. The strong comparison is true if both tags are strong and
/// equal; the weak comparison ignores "W/".
[[nodiscard]] bool is_strongly_equal(std::string_view left, std::string_view right) noexcept;
/// Whether both texts are the same entity tag by the weak comparison.
[[nodiscard]] bool is_weakly_equal(std::string_view left, std::string_view right) noexcept;

}  // namespace gyre::http
