// SPDX-License-Identifier: Apache-2.0
// What few connections need, apart from those that are many.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/output_queue.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/detail/byte_quota.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <sys/uio.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gyre::net::detail {

/// What a connection has once it waits: with output, with an incomplete message, for a timeout.
struct connection_extra {
  explicit connection_extra(tcp_connection& owner) noexcept
      : writing(owner, {}, &tcp_connection::on_written), timer(owner) {}

  static constexpr std::size_t most_pieces = 16;

  io::output_queue output;
  std::array<iovec, most_pieces> pieces;
  io::gather_request writing;
  io::buffer rest;  // received and not consumed

  struct deadline final : timer_operation {
    explicit deadline(tcp_connection& owner) noexcept
        : timer_operation(&tcp_connection::on_timer), self(&owner) {}
    tcp_connection* self;
  };
  deadline timer;
  // The idle timeout is looked at four times: `quiet` counts how often nothing had moved.
  std::chrono::nanoseconds idle_quarter{0};
  std::uint64_t moved = 0;
  unsigned quiet = 0;
};

static_assert(sizeof(connection_extra) <= 512, "tcp_connection says so");

/// What a connection and the references to it share.
struct connection_control {
  connection_control(tcp_connection& of, std::size_t output_limit) noexcept
      : loop(of.loop()), connection(&of), posted(output_limit) {}

  void add() noexcept {
    references.fetch_add(1, std::memory_order_relaxed);  // relaxed: the caller has one
  }
  void drop() noexcept {
    // acq_rel: what others did with theirs happens before the end of the last one.
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  event_loop& loop;
  tcp_connection* connection;  // the loop's thread; null when it is freed
  byte_quota posted;           // what is to be sent and waits in the loop's inbox
  gyre::detail::atomic<bool> alive{true};
  gyre::detail::atomic<std::uint32_t> references{1};
};

}  // namespace gyre::net::detail
