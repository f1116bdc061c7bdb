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

/// A new client of HTTP/2, which may wait for its share of the work of a turn.
class sharing_client : public intrusive_list_node {
 public:
  sharing_client() noexcept = default;
  sharing_client(const sharing_client&) = delete;
  sharing_client& operator=(const sharing_client&) = delete;
  /// Called once after turn_budget::await_share(): the client may cause work of
  /// turn_budget::share.
  virtual void begin_share() noexcept = 0;

 protected:
  ~sharing_client() { unlink(); }
};

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

  /// The work of a client that has waited, in bytes of http2_session::take_work().
  static constexpr std::size_t share = std::size_t{4} << 10;

  /// Returns the work that a new client may cause in this turn without having waited: none while
  /// others wait.
  std::size_t work_of_new_clients() const noexcept {
    return clients_.empty() ? max_work - std::min(work_, max_work) : 0;
  }
  void spend_work_of_new_clients(std::size_t work) noexcept;
  /// Calls begin_share() in a later turn, in the order of these calls. Does nothing while the
  /// client waits.
  void await_share(sharing_client& client) noexcept;
  /// Calls exchange::stop_handler(), now or in a later turn, in the order of these calls. A stop
  /// throws through all frames of a handler, and a client that leaves may cause a hundred.
  void stop(exchange& target) noexcept;

 private:
  static constexpr std::size_t max_work = 4 * share;
  static constexpr std::size_t max_stops = 2;

  bool await_next_turn() noexcept;
  void begin_turn() noexcept;
  void stop_waiting() noexcept;

  server_core& core_;
  event_loop& loop_;
  intrusive_list<exchange> waiting_exchanges_;  // exchanges that end when the stop begins
  intrusive_list<sharing_client> clients_;      // clients that wait for their shares
  std::size_t work_ = 0;
  std::size_t stops_ = 0;
  bool awaits_turn_ = false;
};

}  // namespace gyre::http::detail
