// SPDX-License-Identifier: Apache-2.0
// scratch_buffer: a thread's buffers, lent to work that ends before the thread waits.
#pragma once

#include <gyre/io/buffer.hpp>

#include <utility>

namespace gyre::io::detail {

/// An empty buffer, whose memory goes to the thread's next one: so that connections hold none while
/// they wait, and a busy thread allocates none. A thread keeps two of up to 1 MiB.
///
/// Thread-safety: none.
class scratch_buffer {
 public:
  scratch_buffer() noexcept : own_(take()) {}
  scratch_buffer(const scratch_buffer&) = delete;
  scratch_buffer& operator=(const scratch_buffer&) = delete;
  ~scratch_buffer() { give_back(std::move(own_)); }

  io::buffer& operator*() noexcept { return own_; }
  io::buffer* operator->() noexcept { return &own_; }

  /// For buffers that outlive a scope.
  static io::buffer take() noexcept;
  static void give_back(io::buffer memory) noexcept;

 private:
  io::buffer own_;
};

}  // namespace gyre::io::detail
