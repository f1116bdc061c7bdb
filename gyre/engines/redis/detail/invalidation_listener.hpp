// SPDX-License-Identifier: Apache-2.0
// invalidation_listener: is told which keys of Redis have changed.
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
  /// The connection has ended, so that changes are told no more.
  virtual void clear() noexcept = 0;
};

}  // namespace gyre::redis::detail
