// SPDX-License-Identifier: Apache-2.0
// server_core: the state that the loops of a tcp_server share.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/connection_handlers.hpp>
#include <gyre/net/detail/address_limits.hpp>
#include <gyre/net/detail/byte_quota.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/released_connection.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_server_options.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <vector>

namespace gyre::net::detail {

class server_shard;

struct server_handlers : connection_handlers {
  move_only_function<void(std::error_code)> accept_error;
  move_only_function<void(tcp_connection&)> stopping;
};

/// The state of a tcp_server. Kept alive by the server and by the functions that the server has
/// posted to its loops.
class server_core : public std::enable_shared_from_this<server_core> {
 public:
  /// The reasons for which no connection is accepted.
  enum class hold : std::uint8_t { paused = 1, full = 2 };

  server_core(const std::vector<event_loop*>& loops, tcp_server_options settings);
  server_core(const server_core&) = delete;
  server_core& operator=(const server_core&) = delete;
  ~server_core();

  void listen(const endpoint& local);
  void listen(std::vector<socket> listeners);
  endpoint local_endpoint(std::size_t index) const;
  void start();
  void adopt(unique_fd connection);
  void adopt(unique_fd connection, const endpoint& peer);
  void adopt(released_connection connection);
  void set_hold(hold reason, bool is_held);
  // tcp_server documents the functions below.
  bool for_each(std::function<void(tcp_connection&)> function);
  bool broadcast(std::span<const std::byte> bytes);
  void stop(duration timeout, move_only_function<void()> callback);
  void stop(steady_time deadline, move_only_function<void()> callback);
  void abandon() noexcept;
  tcp_server_metrics metrics() const noexcept;

  const tcp_server_options options;
  server_handlers handlers;
  /// Returns the handlers for setting them; throws std::logic_error once the loops may call them.
  server_handlers& settable_handlers();

 private:
  friend class server_shard;

  // A listening socket that waits for start().
  struct listener {
    server_shard* target;
    socket listening_socket;
    bool is_own;  // whether no other loop or process accepts from the socket
  };

  std::shared_ptr<server_shard> shared(server_shard& target) noexcept {
    return std::shared_ptr<server_shard>(shared_from_this(), &target);
  }
  template <class Function>
  void post(server_shard& target, Function function);
  template <class Function>
  void post_to_all(Function function);
  template <class Make>
  bool visit_all(std::size_t bytes, Make&& make_function);
  void begin_to_stop();
  void add_stop_callback(move_only_function<void()> callback);
  void adopt(unique_fd connection, const endpoint& peer,
             std::unique_ptr<released_connection> released_state);
  void add(const endpoint& local, std::vector<socket> listeners, bool are_own);
  void open_waiting();
  server_shard& choose_for(const endpoint& peer, server_shard& receiver) noexcept;
  std::span<const std::unique_ptr<server_shard>> accepting_shards() const noexcept;
  connection_group::limits limits_of_shard() const noexcept;
  std::size_t take_slot(server_shard& receiver) noexcept;
  void release_slot() noexcept;
  bool is_full() const noexcept;
  void finish_shard() noexcept;
  void call_next_stop_callback();
  void post_server_changes(server_shard& target) noexcept;

  const std::size_t loops_;
  std::vector<std::unique_ptr<server_shard>> shards_;
  byte_quota broadcast_quota_;  // bytes that for_each() and broadcast() have posted
  address_limits address_limits_;
  mutable std::mutex mutex_;  // guards the members up to the counters
  std::vector<endpoint> endpoints_;
  std::vector<listener> waiting_listeners_;
  bool is_started_ = false;
  bool is_stopping_ = false;
  bool is_stopped_ = false;
  // The callbacks of stop() that were not called yet.
  std::vector<move_only_function<void()>> stop_callbacks_;

  // Counters, changed with relaxed operations: they guard no other data.
  gyre::detail::atomic<std::uint64_t> accepted_count_{0};
  gyre::detail::atomic<std::uint64_t> refused_count_{0};
  gyre::detail::atomic<std::uint64_t> limited_count_{0};
  gyre::detail::atomic<std::uint64_t> failed_handshakes_{0};
  gyre::detail::atomic<std::uint64_t> accept_errors_{0};
  gyre::detail::atomic<std::uint64_t> next_id_{0};
  gyre::detail::atomic<std::size_t> slots_taken_{0};
  // Connections in any stage, and loops that accept: the server has stopped when the number is
  // zero.
  gyre::detail::atomic<std::size_t> unfinished_;
  std::size_t next_shard_ = 0;  // only the accepting loop uses it
};

}  // namespace gyre::net::detail
