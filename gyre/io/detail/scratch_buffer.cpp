// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/scratch_buffer.hpp>

#include <array>
#include <cstddef>

namespace gyre::io::detail {
namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 20;

// Returns the buffers of this thread. The function is not inlined, because a coroutine may have
// changed threads since it last got their address.
[[gnu::noinline]] std::array<io::buffer, 2>& buffers_of_thread() noexcept {
  thread_local std::array<io::buffer, 2> buffers;
  return buffers;
}

}  // namespace

io::buffer scratch_buffer::take() noexcept {
  for (io::buffer& buffer : buffers_of_thread()) {
    if (buffer.capacity() > 0) return std::exchange(buffer, io::buffer());
  }
  return {};
}

void scratch_buffer::give_back(io::buffer memory) noexcept {
  if (memory.capacity() == 0 || memory.capacity() > 2 * max_bytes) return;
  memory.clear();
  for (io::buffer& buffer : buffers_of_thread()) {
    if (buffer.capacity() == 0) {
      buffer = std::move(memory);
      return;
    }
  }
}

}  // namespace gyre::io::detail
