// SPDX-License-Identifier: Apache-2.0
// tcp_server::core: the state that a server's loops share, and its shard on each loop.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/net/detail/accept_policy.hpp>
#include <gyre/net/detail/byte_quota.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/layer_opening.hpp>
#include <gyre/net/tcp_server.hpp>

#include <atomic>
#include <list>
#include <mutex>
#include <unordered_map>

namespace gyre::net {
namespace detail {
class proxy_layer;
}  // namespace detail

namespace detail {

/// Counts connections by the address of their peers; of IPv6 by its /64 network, all of which one
/// customer has. Unix peers are not limited. Without limits it costs nothing. Any thread.
class address_limits {
 public:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  /// At a time, and within `interval`, which must be positive.
  address_limits(std::size_t connections, std::size_t accepts,
                 std::chrono::nanoseconds interval) noexcept;

  /// Whether one more is allowed, then counted until release(). False also without memory to count.
  bool admit(const endpoint& peer, steady_time present) noexcept;
  void release(const endpoint& peer) noexcept;
  /// Addresses that are remembered.
  std::size_t size() const noexcept;

 private:
  struct entry {
    std::size_t connections = 0;
    /// When all that it opened would be due, had it opened them evenly (GCRA: ITU-T I.371).
    steady_time due{};
  };

  bool is_limited(const endpoint& peer) const noexcept;
  static ip_address key_of(const endpoint& peer) noexcept;

  const std::size_t connections_;
  const bool counts_accepts_;
  const std::chrono::nanoseconds interval_;
  const std::chrono::nanoseconds accept_cost_;
  mutable std::mutex mutex_;  // of these
  std::unordered_map<ip_address, entry> entries_;
  std::size_t sweep_threshold_ = 1024;
};

struct server_handlers : connection_handlers {
  move_only_function<void(std::error_code)> accept_error;
  move_only_function<void(tcp_connection&)> stopping;
};

}  // namespace detail

/// Kept alive by the server and by the functions that it has posted to its loops.
class tcp_server::core : public std::enable_shared_from_this<core> {
 public:
  /// Why no connection is accepted at present.
  enum class hold : std::uint8_t { paused = 1, full = 2 };

  core(const std::vector<event_loop*>& loops, tcp_server_options settings);

  void listen(const endpoint& at);
  void listen(std::vector<socket> listening);
  endpoint local_endpoint(std::size_t index) const;
  void start();
  void adopt(unique_fd connection);
  void set_hold(hold why, bool held);
  void abandon() noexcept;
  tcp_server_metrics metrics() const noexcept;

  const tcp_server_options options;
  detail::server_handlers handlers;
  /// To be set; throws std::logic_error once the loops may call them.
  detail::server_handlers& settable_handlers();

 private:
  friend tcp_server;

  class shard;
  class acceptor;

  // A listening socket that waits for start().
  struct listener {
    shard* on;
    socket listening;
    bool is_own;  // no other loop or process accepts from it
  };

  std::shared_ptr<shard> shared(shard& target) noexcept {
    return std::shared_ptr<shard>(shared_from_this(), &target);
  }
  template <class Function>
  void post(shard& target, Function function);
  template <class Function>
  void post_to_all(Function function);
  void add(const endpoint& at, std::vector<socket> listening, bool are_own);
  void open_waiting();
  template <class Function>
  bool visit_all(std::size_t bytes, Function&& make_function);
  shard& choose_for(const endpoint& peer, shard& receiver) noexcept;
  std::span<const std::unique_ptr<shard>> accepting_shards() const noexcept;
  detail::connection_group::limits limits_of_one() const noexcept;
  std::size_t take_slot(shard& receiver) noexcept;
  void release_slot() noexcept;
  bool is_full() const noexcept;
  void begin_to_stop(move_only_function<void()> done);
  void finish_one() noexcept;
  void call_one_done();
  void catch_up_later(shard& target) noexcept;

  const std::size_t loops_;
  std::vector<std::unique_ptr<shard>> shards_;
  detail::byte_quota broadcast_quota_;  // of for_each() and broadcast()
  detail::address_limits address_limits_;
  mutable std::mutex mutex_;  // for the members up to the counters
  std::vector<endpoint> endpoints_;
  std::vector<listener> waiting_;
  bool started_ = false;
  bool stopping_ = false;
  bool stopped_ = false;
  std::vector<move_only_function<void()>> done_callbacks_;  // not called yet

  // Counters, which order nothing: relaxed.
  gyre::detail::atomic<std::uint64_t> accepted_{0};
  gyre::detail::atomic<std::uint64_t> refused_{0};
  gyre::detail::atomic<std::uint64_t> limited_{0};
  gyre::detail::atomic<std::uint64_t> failed_handshakes_{0};
  gyre::detail::atomic<std::uint64_t> accept_errors_{0};
  gyre::detail::atomic<std::uint64_t> next_id_{0};
  gyre::detail::atomic<std::size_t> slots_taken_{0};
  // Connections in any stage, and loops that accept: the server has stopped when it is zero.
  gyre::detail::atomic<std::size_t> unfinished_;
  std::size_t next_shard_ = 0;  // the accepting loop's
};

/// The server on one loop.
///
/// Thread-safety: members belong to the loop's thread, but for those marked for any thread.
class tcp_server::core::shard final : public detail::connection_group {
 public:
  /// Any thread.
  shard(core& whole, event_loop& loop);
  ~shard() override;

  void open(socket listening, bool is_own);
  void set_hold(hold why, bool held) noexcept;
  /// Reacts to changes on other loops, or before this turn.
  void catch_up();
  void accepted(unique_fd connection, const endpoint& peer);
  void adopted(unique_fd connection, const endpoint& peer);
  void adopt_accepted(unique_fd connection, const endpoint& peer);
  void stop(std::chrono::nanoseconds timeout);

  /// Connections given to it. Any thread.
  gyre::detail::atomic<std::size_t> assigned{0};
  /// Calls catch_up().
  gyre::detail::deferred_release<shard> catch_up_release{
      [](std::shared_ptr<shard> target, gyre::detail::release_point point) {
        if (point == gyre::detail::release_point::loop_turn) target->catch_up();
      }};

 private:
  friend acceptor;

  void accepting_paused(std::error_code error, const detail::accept_policy::pause& pause);
  void connection_begins(tcp_connection& begun) override;
  void connection_ends(tcp_connection& ended) noexcept override;
  void connection_gone() override;
  void connection_drained(tcp_connection& drained) override;
  // An accepted connection whose layer opens.
  struct arriving {
    endpoint peer;
    detail::proxy_layer* proxy = nullptr;  // the layer, while `peer` is the proxy
    std::optional<proxy_header> header = std::nullopt;
    std::unique_ptr<detail::layer_opening> opening = nullptr;
  };
  void open_layer(unique_fd connection, arriving&& begun, std::unique_ptr<layer> protocol);
  /// Destroys `ended`.
  void opening_ended(arriving& ended, std::error_code why);
  void header_ended(unique_fd connection, const endpoint& proxy, detail::proxy_layer& layer,
                    std::error_code why);
  /// `early`: bytes that came with the header of a proxy.
  void serve(unique_fd connection, const endpoint& peer, std::span<const std::byte> early = {});
  void report_no_layer(const endpoint& peer, const std::exception_ptr& failed);
  void begin_connection(unique_fd connection, const endpoint& peer, std::unique_ptr<layer> protocol,
                        std::span<const std::byte> early = {});
  void close_others() noexcept override;
  void refuse_assigned() noexcept;
  void release_assigned() noexcept;
  void drain_acceptors();
  void note_accepting_ended() noexcept;
  void advance_stop();

  core& core_;
  std::list<acceptor> acceptors_;
  std::list<arriving> arriving_;
  std::optional<proxy_header> proxy_header_;  // for the connection that begins
  gyre::detail::flag_set<hold> holds_;

  // The stages of a stop: `impatient` begins at grace_ends_.
  enum class stop_stage : std::uint8_t { none, begun, impatient };
  stop_stage stage_ = stop_stage::none;
  bool accepting_ended_ = false;
  steady_time grace_ends_{};
  steady_time stop_by_{};
  std::optional<timer> stop_timer_;  // as the idle timer of the group
};

}  // namespace gyre::net
