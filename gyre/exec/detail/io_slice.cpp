// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/io_slice.hpp>

#include <gyre/exec/poller.hpp>

#include <algorithm>

namespace gyre::detail {

// The stride follows how long completions take, so that a few slow ones are noticed.
bool io_slice::look() noexcept {
  const steady_time present = clock_.now();
  if (began_ == steady_time::min()) {
    began_ = present;
  } else {
    const std::chrono::nanoseconds since_last = present - last_look_;
    stride_ = since_last < length_ / 32 ? std::min(stride_ * 2, longest_stride)
                                        : std::max(stride_ / 2, 1);
  }
  last_look_ = present;
  left_ = stride_;
  over_ = present - began_ >= length_;
  return over_;
}

}  // namespace gyre::detail
