// SPDX-License-Identifier: Apache-2.0
// A timer in flight: like an operation, a node that its owner embeds where it already has memory.
#pragma once

#include <gyre/base/timer_wheel.hpp>

namespace gyre {

/// A timer's place in whoever keeps the time, and what happens when it expires. Derive from it, or
/// embed it in a class that does; starting and cancelling allocates nothing. It must stay alive and
/// in place while it is started.
class timer_operation : public detail::timer_node {
 public:
  using function = void (*)(timer_operation&);
  explicit timer_operation(function run) noexcept : expire_(run) {}
  void expire() { expire_(*this); }

 private:
  function expire_;
};

}  // namespace gyre
