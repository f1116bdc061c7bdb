// SPDX-License-Identifier: Apache-2.0
// turn_budget: what hostile clients may cause in one turn of a server's loop, so that the others do
// not wait for them.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/event_loop.hpp>

#include <algorithm>
#include <cstddef>

namespace gyre::http::detail {

class exchange;
class server_core;

/// The limits of a turn for all connections of a loop together. Each use posts a callable to the
/// next turn, unless one is posted, which renews the limits.
///
/// Thread-safety: the loop's thread.
class turn_budget {
 public:
  /// Lifetime: `core` owns this object through its shards.
  turn_budget(server_core& core, event_loop& loop) noexcept;
  turn_budget(const turn_budget&) = delete;
  turn_budget& operator=(const turn_budget&) = delete;
  ~turn_budget();

  /// Returns the work that new clients of HTTP/2 may still cause in this turn: see
  /// http2_session::take_work().
  std::size_t work_of_new_clients() const noexcept { return max_work - std::min(work_, max_work); }
  void spend_work_of_new_clients(std::size_t work) noexcept;
  /// Calls exchange::stop_handler(), now or in a later turn, in the order of these calls. A stop
  /// throws through all frames of a handler, and a client that leaves may cause a hundred.
  void stop(exchange& target) noexcept;

 private:
  static constexpr std::size_t max_work = std::size_t{16} << 10;
  static constexpr std::size_t max_stops = 8;

  bool await_next_turn() noexcept;
  void begin_turn() noexcept;

  server_core& core_;
  event_loop& loop_;
  intrusive_list<exchange> waiting_;  // for their stops
  std::size_t work_ = 0;
  std::size_t stops_ = 0;
  bool awaits_turn_ = false;
};

}  // namespace gyre::http::detail
