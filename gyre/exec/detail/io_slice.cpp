// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/io_slice.hpp>

#include <algorithm>

namespace gyre::detail {

// Doubles the stride while completions are short, and halves it when they take long, so that the
// loop notices a few slow ones.
bool io_slice::check_time(steady_time current_time) noexcept {
  if (begin_ == steady_time::min()) {
    begin_ = current_time;
  } else {
    const std::chrono::nanoseconds since_last = current_time - last_check_;
    stride_ =
        since_last < length_ / 32 ? std::min(stride_ * 2, max_stride) : std::max(stride_ / 2, 1);
  }
  last_check_ = current_time;
  completions_to_check_ = stride_;
  is_over_ = current_time - begin_ >= length_;
  return is_over_;
}

}  // namespace gyre::detail
