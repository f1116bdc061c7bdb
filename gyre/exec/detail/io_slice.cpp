// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/io_slice.hpp>

#include <algorithm>

namespace gyre::detail {

// Doubles the stride while completions are short, and halves it when they take long, so that the
// loop notices a few slow ones.
bool io_slice::look(steady_time present) noexcept {
  if (began_ == steady_time::min()) {
    began_ = present;
  } else {
    const std::chrono::nanoseconds since_last = present - last_look_;
    stride_ = since_last < length_ / 32 ? std::min(stride_ * 2, longest_stride)
                                        : std::max(stride_ / 2, 1);
  }
  last_look_ = present;
  completions_to_look_ = stride_;
  is_over_ = present - began_ >= length_;
  return is_over_;
}

}  // namespace gyre::detail
