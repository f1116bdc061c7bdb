// SPDX-License-Identifier: Apache-2.0
// An operation that a pool may give up: purge(), drop_oldest, a stop whose grace has passed.
#pragma once

#include <gyre/base/operation.hpp>

namespace gyre::detail {

/// An operation that ends in one of two ways, once: executed, or dropped. It owns itself, and may
/// be gone afterwards.
class droppable_operation : public operation {
 public:
  /// Ends it without running it. Any thread. Does not throw, but may run a user's destructors.
  virtual void drop() noexcept = 0;

 protected:
  using operation::operation;
  ~droppable_operation() = default;
};

}  // namespace gyre::detail
