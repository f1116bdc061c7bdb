// SPDX-License-Identifier: Apache-2.0
// scratch_buffer: a thread's buffers, lent to code that ends before the thread waits.
#pragma once

#include <gyre/io/buffer.hpp>

#include <utility>

namespace gyre::io::detail {

/// An empty buffer, whose memory the thread's next scratch_buffer uses again. Connections thus hold
/// no memory while they wait, and a busy thread allocates none. A thread keeps two buffers of up to
/// 1 MiB.
///
/// Thread-safety: none.
class scratch_buffer {
 public:
  scratch_buffer() noexcept : buffer_(take()) {}
  scratch_buffer(const scratch_buffer&) = delete;
  scratch_buffer& operator=(const scratch_buffer&) = delete;
  ~scratch_buffer() { give_back(std::move(buffer_)); }

  io::buffer& operator*() noexcept { return buffer_; }
  io::buffer* operator->() noexcept { return &buffer_; }

  /// Takes a buffer out of the thread's storage until give_back(); the buffer may outlive a scope.
  static io::buffer take() noexcept;
  static void give_back(io::buffer memory) noexcept;

 private:
  io::buffer buffer_;
};

}  // namespace gyre::io::detail
