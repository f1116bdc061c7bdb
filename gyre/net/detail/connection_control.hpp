// SPDX-License-Identifier: Apache-2.0
// connection_control: the state that a connection shares with its references on other threads.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/detail/byte_quota.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gyre::net::detail {

class connection_io;

/// The reference-counted state that a connection and its references share. The last owner deletes
/// it.
struct connection_control {
  connection_control(connection_io& target, event_loop& owner_loop,
                     std::size_t output_limit) noexcept
      : loop(owner_loop), connection(&target), posted_bytes(output_limit) {}

  void add() noexcept {
    references.fetch_add(1, std::memory_order_relaxed);  // relaxed: the caller owns a reference
  }
  void drop() noexcept {
    // acq_rel: pairs with the other calls of drop(); makes all uses by other owners visible to the
    // thread that deletes the object.
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  event_loop& loop;
  connection_io* connection;  // only for the loop's thread; null after the connection was freed
  byte_quota posted_bytes;    // bytes that wait in the loop's inbox
  gyre::detail::atomic<bool> is_close_posted{false}, is_abort_posted{false};
  gyre::detail::atomic<bool> is_alive{true};
  gyre::detail::atomic<std::uint32_t> references{1};
};

}  // namespace gyre::net::detail
