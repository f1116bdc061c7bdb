// SPDX-License-Identifier: Apache-2.0
// reply_cursor: reads the values of a reply in their order, for conversions of one's own.
//
//     template <>
//     struct gyre::redis::reply_traits<point> {
//       static point read(gyre::redis::reply_cursor& values) {
//         const auto [x, y] = gyre::redis::read_reply<std::pair<double, double>>(values);
//         return {x, y};
//       }
//     };
#pragma once

#include <gyre/engines/redis/reply_node.hpp>

#include <string_view>

namespace gyre::redis {

/// Reads the values of a complete reply, each before those that belong to it.
///
/// Thread-safety: none.
/// Lifetime: the reply's bytes must outlive it, and the texts of nodes.
/// Errors: to read more values than there are is a fault of the program, and asserted.
/// Complexity: allocates nothing.
class reply_cursor {
 public:
  /// `bytes`: a complete reply.
  explicit constexpr reply_cursor(std::string_view bytes) noexcept : rest_(bytes) {}

  /// Returns the next value, which stays the next one.
  [[nodiscard]] reply_node peek() const noexcept;
  reply_node next() noexcept;
  /// Passes over the next value and all that belongs to it.
  void skip() noexcept;
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace gyre::redis
