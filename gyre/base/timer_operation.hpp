// SPDX-License-Identifier: Apache-2.0
// timer_operation: a timer in flight, a node that its owner embeds, as an operation.
#pragma once

#include <gyre/base/timer_wheel.hpp>

namespace gyre {

/// A timer that a timer_service starts, and the function to call when it expires. Derive from it;
/// starting and cancelling allocate nothing.
///
/// Lifetime: must stay alive and in place while it is started.
class timer_operation : public detail::timer_node {
 public:
  using function = void (*)(timer_operation&);
  explicit timer_operation(function run) noexcept : expire_(run) {}
  void expire() { expire_(*this); }

 private:
  function expire_;
};

}  // namespace gyre
