// SPDX-License-Identifier: Apache-2.0
// trace_parent: the place of a request in a trace over several programs (W3C Trace Context).
//
//     if (const auto parent = request.trace_parent()) {
//       log << "trace " << parent->trace_id() << '\n';
//       call.set("traceparent", parent->make_child().to_string());
//     }
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::http {

/// The value of the field `traceparent`: the id of a trace, the id of the request within it, and
/// whether the caller records the trace. Ids are lower-case hexadecimal digits, and not all zero.
///
/// Thread-safety: as a value.
/// Complexity: 49 bytes; only to_string() allocates.
class trace_parent {
 public:
  /// Reads a value of the field. Returns nothing for a malformed one, which the standard tells
  /// receivers to ignore. A value of a later version is read as far as this version knows it.
  [[nodiscard]] static std::optional<trace_parent> parse(std::string_view text) noexcept;
  /// Begins a trace, with random ids. Throws std::system_error if the system has no random numbers.
  [[nodiscard]] static trace_parent make(bool is_sampled = false);
  /// Returns the place of a further request in the same trace, with a random id of its own, to be
  /// sent to another program. Throws as make().
  [[nodiscard]] trace_parent make_child() const;

  /// The id of the trace: 32 digits.
  [[nodiscard]] std::string_view trace_id() const noexcept {
    return {trace_id_.data(), trace_id_.size()};
  }
  /// The id of the request that was sent: 16 digits.
  [[nodiscard]] std::string_view parent_id() const noexcept {
    return {parent_id_.data(), parent_id_.size()};
  }
  /// Whether the caller may have recorded the trace.
  [[nodiscard]] bool is_sampled() const noexcept { return is_sampled_; }
  /// The value of the field, of version 00.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const trace_parent&, const trace_parent&) noexcept = default;

 private:
  trace_parent() noexcept = default;

  std::array<char, 32> trace_id_{};
  std::array<char, 16> parent_id_{};
  bool is_sampled_ = false;
};

}  // namespace gyre::http
