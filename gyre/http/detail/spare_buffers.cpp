// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/spare_buffers.hpp>

#include <array>
#include <cstddef>
#include <utility>

namespace gyre::http::detail {
namespace {

// One buffer for bytes that wait, and one for the frames that are being sent.
constexpr std::size_t max_spare_buffers = 2;
constexpr std::size_t max_spare_size = std::size_t{128} << 10;

struct spare_list {
  std::array<io::buffer, max_spare_buffers> buffers;
  std::size_t count = 0;
};

// A coroutine may continue on another thread, so the function must not be inlined into it.
[[gnu::noinline]] spare_list& spares() noexcept {
  static thread_local spare_list list;
  return list;
}

}  // namespace

void take_spare_buffer(io::buffer& buffer) noexcept {
  if (buffer.capacity() != 0) return;
  spare_list& list = spares();
  if (list.count != 0) buffer.swap(list.buffers[--list.count]);
}

void keep_spare_buffer(io::buffer& buffer) noexcept {
  if (buffer.capacity() == 0) return;
  buffer.clear();
  spare_list& list = spares();
  if (list.count < list.buffers.size() && buffer.capacity() <= max_spare_size) {
    buffer.swap(list.buffers[list.count++]);
  } else {
    buffer = io::buffer({.prepend = 0});
  }
}

}  // namespace gyre::http::detail
