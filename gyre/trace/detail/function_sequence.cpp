// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/function_sequence.hpp>

#include <utility>

namespace gyre::trace::detail {

constinit thread_local function_sequence* function_sequence::innermost = nullptr;

void function_sequence::enter() noexcept {
  outer_sequence_ = std::exchange(innermost, this);
  outer_activity_ = recorder_->own_activity();
  first_ = last_ = gyre::detail::read_ticks();
  current_activity_ = {.begin = first_, .kind = function_kind_, .object = 0};
}

void function_sequence::exit() noexcept {
  innermost = outer_sequence_;
  recorder_->set_activity(outer_activity_);
}

}  // namespace gyre::trace::detail
