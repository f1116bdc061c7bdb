// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/recording.hpp>

#include <gyre/trace/detail/recorder.hpp>

#include <atomic>
#include <bit>
#include <stdexcept>

namespace gyre::trace {

void set_recording(bool is_enabled) noexcept {
  // relaxed: the setting orders nothing.
  detail::recording_is_on.store(is_enabled && detail::is_compiled_in, std::memory_order_relaxed);
}

bool is_recording() noexcept {
  return detail::is_compiled_in && detail::recording_is_on.load(std::memory_order_relaxed);
}

void set_ring_size(std::size_t bytes) {
  constexpr std::size_t min_size = std::size_t{4} << 10;
  constexpr std::size_t max_size = std::size_t{1} << 30;
  if (bytes < min_size || bytes > max_size || !std::has_single_bit(bytes)) {
    throw std::invalid_argument(
        "gyre::trace::set_ring_size: the size must be a power of two from 4 KiB to 1 GiB");
  }
  detail::ring_size.store(bytes, std::memory_order_relaxed);
}

}  // namespace gyre::trace
