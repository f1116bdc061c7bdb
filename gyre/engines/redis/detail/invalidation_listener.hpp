// SPDX-License-Identifier: Apache-2.0
// invalidation_listener: receives the keys of Redis that have changed.
#pragma once

#include <gyre/engines/redis/reply_cursor.hpp>

namespace gyre::redis::detail {

class invalidation_listener {
 public:
  invalidation_listener() noexcept = default;
  invalidation_listener& operator=(invalidation_listener&&) = delete;
  virtual ~invalidation_listener() = default;

  /// `keys`: the array of keys that the server has sent, or null for all keys.
  virtual void invalidate(reply_cursor keys) noexcept = 0;
  /// Called when the connection has ended, after which the server reports no changes.
  virtual void clear() noexcept = 0;
};

}  // namespace gyre::redis::detail
