// SPDX-License-Identifier: Apache-2.0
// connection_group: the connections of a server or a client on one loop. Only the group frees
// connections, and only a deferred release frees the group, so that handlers may destroy anything.
#pragma once

#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/base/detail/reserved_ring.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/detail/deferred_release.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/net/connection_handlers.hpp>
#include <gyre/net/connection_metrics.hpp>
#include <gyre/net/connection_options.hpp>
#include <gyre/net/detail/callback_gate.hpp>
#include <gyre/net/detail/connection_io.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/socket_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

namespace gyre::net::detail {

/// Sets `options` on a connected TCP socket, or on a listening one, whose connections inherit them.
/// Ignores failures: they mean that the connection is lost, which reading reports. Returns the sums
/// over all connections. May be called from any thread.
void apply(const connection_options& options, const socket_ref& target) noexcept;

/// The owner of the connections, which frees each of them in a turn of its own.
///
/// Thread-safety: members belong to the loop's thread, but for those marked for any thread.
class connection_group {
 public:
  /// Limits for the connections of servers.
  struct limits {
    /// The bytes that all connections together may hold: waiting output and unconsumed input.
    std::size_t max_bytes = std::numeric_limits<std::size_t>::max();
    /// The bytes that each descriptor in a connection's output counts as, except the first.
    std::size_t bytes_per_further_descriptor = 0;
    /// Whether connections stop reading at high_water if there is no high_water handler.
    bool pause_at_high_water = false;
    /// The idle timeout, unless the options set one.
    std::chrono::nanoseconds idle_timeout = std::chrono::nanoseconds::zero();
  };

  /// Makes a group on `loop`. `handlers` and `options` must outlive the group. Throws what
  /// io::backend_of() throws, and std::invalid_argument for options that make no sense. May be
  /// called from any thread.
  connection_group(event_loop& loop, connection_handlers& handlers,
                   const connection_options& options, limits bounds);
  connection_group(const connection_group&) = delete;
  connection_group& operator=(const connection_group&) = delete;
  /// The destructor may run on any thread, because an abandoned group is empty.
  virtual ~connection_group();

  event_loop& loop() const noexcept { return loop_; }
  io::backend& io() const noexcept { return io_; }
  connection_handlers& handlers() const noexcept { return handlers_; }
  const connection_options& options() const noexcept { return options_; }
  std::size_t low_water() const noexcept { return low_water_; }
  callback_gate& gate() noexcept { return gate_; }

  /// Takes over a connected socket, and calls the `connected` handler, whose exceptions it throws.
  /// `protocol`: a transport's layer whose handshake is done, or null. `early_bytes`: plain bytes
  /// received before, which are delivered after `connected`. `kind`: the kind of the socket, if the
  /// peer's address does not reveal it. Returns false if the gate is closed, or if there is no
  /// memory for the connection, which is then closed.
  bool adopt(unique_fd socket, const endpoint& peer, std::uint64_t id,
             std::unique_ptr<layer> protocol = nullptr, std::span<const std::byte> early_bytes = {},
             std::optional<io::handle_kind> kind = std::nullopt);

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /// Calls `function`, which may do anything, with each connection that has not ended. An exception
  /// aborts only the connection of its call; the first exception is thrown at the end.
  void for_each(const std::function<void(tcp_connection&)>& function);

  /// Begins to call on_connection_drained() once for each connection, also for connections that
  /// begin later, when all that has arrived for it was delivered. A new connection must first
  /// receive bytes, a connection with an incomplete message the rest of the message, and a paused
  /// connection must resume. A closing connection is drained at once.
  void begin_to_drain();
  /// Ends the wait of a drain for input: every connection that is not paused is drained at once,
  /// even if its input is incomplete.
  void stop_waiting_for_input();
  /// Whether connections are being drained.
  bool drains() const noexcept { return is_draining_; }
  /// The connections on which limit_closing() calls close(timeout, timeout): those that are closing
  /// already, or all.
  enum class closed_by : bool { closing, all };
  void limit_closing(closed_by scope, std::chrono::nanoseconds timeout);

  /// Abandons `group`, from any thread. No handler runs any more when this returns. The loop then
  /// closes and frees the connections; on the loop's own thread they are closed at once.
  static void abandon(std::shared_ptr<connection_group> group) noexcept;

  // --- For the connections ---

  /// Returns the bytes that were passed to adopt() for `connection`, on the first call only; empty
  /// once `connected` has returned.
  std::span<const std::byte> take_early(const connection_io& connection) noexcept {
    if (beginning_ != &connection) return {};
    return std::exchange(early_bytes_, {});
  }
  void count_received(std::size_t bytes) noexcept {
    bytes_received_.add(bytes);
    messages_.add(1);
  }
  void count_sent(std::size_t bytes) noexcept { bytes_sent_.add(bytes); }
  bool pauses_at_high_water() const noexcept {
    return limits_.pause_at_high_water && !handlers_.high_water;
  }
  /// Counts `bytes` instead of `old_bytes` for a connection. Returns false if that is too much:
  /// more than before, and more than an even share of half the memory while the other half is used
  /// up.
  bool count_held(std::size_t old_bytes, std::size_t bytes) noexcept {
    held_bytes_ += bytes - old_bytes;
    const std::size_t half_memory = limits_.max_bytes / 2;
    return bytes <= old_bytes || held_bytes_ <= half_memory ||
           bytes <= half_memory / (size_ + handshakes_);
  }
  /// Counts the bytes of a transport's handshake as count_held() does. A handshake counts as a
  /// connection while it holds bytes.
  bool count_held_by_handshake(std::size_t old_bytes, std::size_t bytes) noexcept {
    if (old_bytes == 0 && bytes > 0) ++handshakes_;
    if (old_bytes > 0 && bytes == 0) --handshakes_;
    return count_held(old_bytes, bytes);
  }
  /// Returns the bytes that `count` descriptors of one connection count as.
  std::size_t held_as_descriptors(std::size_t count) const noexcept {
    return count <= 1 ? 0 : (count - 1) * limits_.bytes_per_further_descriptor;
  }
  /// Returns the loop's time, in units of the idle timeout divided by idle_clock_per_timeout; it
  /// wraps around.
  std::uint8_t idle_clock() const noexcept {
    return static_cast<std::uint8_t>(loop_.recent_time().time_since_epoch() / idle_clock_tick_);
  }
  static constexpr std::uint8_t idle_clock_per_timeout = 32;
  /// These functions are called before the `connected` handler, before the `closed` handler, after
  /// the connection has been freed, and when it is drained.
  virtual void on_connection_begun(tcp_connection&) {}
  virtual void on_connection_ended(tcp_connection&) noexcept {}
  virtual void on_connection_gone() {}
  virtual void on_connection_drained(tcp_connection&) {}
  void drain(connection_io& connection);
  io::receive_memory& receive_memory() const noexcept { return receive_memory_; }
  io::shared_receive_request& receiving() noexcept { return receive_request_; }
  /// Schedules one call of `due.on_scheduled()` in a turn of its own. At most one call of a
  /// connection may be scheduled at a time.
  void schedule_call(connection_io& connection) noexcept;
  /// Schedules the call of `closed` and the end of the connection in a turn of their own, after a
  /// scheduled call. Must be called once.
  void schedule_finish(connection_io& connection, std::error_code reason) noexcept;

  /// May be called from any thread.
  connection_metrics metrics() const noexcept {
    return {.bytes_received = bytes_received_.get(),
            .bytes_sent = bytes_sent_.get(),
            .messages = messages_.get()};
  }

 protected:
  /// Closes everything else that the derived class has on the loop. May be called twice.
  virtual void close_others() noexcept {}

 private:
  struct ended_connection {
    connection_io* connection;
    std::error_code reason;
  };
  struct run_operation final : operation {
    explicit run_operation(connection_group& group) noexcept
        : operation([](operation& self_operation) {
            static_cast<run_operation&>(self_operation).self.run_due_calls();
          }),
          self(group) {}
    connection_group& self;
  };

  bool has_due_calls() const noexcept {
    return !scheduled_connections_.empty() || !ended_connections_.empty();
  }
  void post_due_calls() noexcept;
  void run_due_calls();
  bool run_next_call();
  template <class Function>
  void visit_each(Function&& function);
  void finish_connection(connection_io& connection, std::error_code reason);
  void remove_connection(connection_io& connection) noexcept;
  void start_idle_timer();
  void end_some_idle();
  void close_all() noexcept;
  static void release(std::shared_ptr<connection_group> group,
                      gyre::detail::release_point point) noexcept;
  void drain_all();
  bool defer_drain_for_pending_input(connection_io& connection) noexcept;

  // Each message needs the members from here to `messages_`, and no others.
  event_loop& loop_;
  io::backend& io_;
  io::receive_memory& receive_memory_;
  io::shared_receive_request receive_request_;  // shared by all connections
  connection_handlers& handlers_;
  callback_gate gate_;
  bool is_draining_ = false;
  gyre::detail::published_counter bytes_received_, bytes_sent_, messages_;

  const connection_options& options_;
  const std::size_t low_water_;
  const limits limits_;
  const std::chrono::nanoseconds idle_timeout_;  // zero: no limit
  const std::chrono::nanoseconds idle_clock_tick_;
  std::optional<timer> idle_timer_;  // reset by close_all(): the group may outlive the loop
  std::size_t idle_part_ = 0;        // how often idle_timer_ has expired
  std::size_t idle_part_size_ = 0;   // the number of connections that one expiry checks
  intrusive_list<connection_io> list_;
  std::size_t size_ = 0;
  const connection_io* beginning_ = nullptr;  // the connection whose `connected` runs, or null
  std::span<const std::byte> early_bytes_;    // the early bytes of beginning_
  // Calls that wait for the loop. Both queues have room for all connections, so that adding to them
  // needs no memory; an operation in each connection would take more.
  gyre::detail::reserved_ring<connection_io*> scheduled_connections_;
  gyre::detail::reserved_ring<ended_connection> ended_connections_;
  // The number of calls to be made in this turn, or in the next one if this turn's share is used
  // up; the other calls are made in later turns.
  std::size_t scheduled_now_ = 0;
  std::size_t ended_now_ = 0;
  run_operation run_operation_{*this};
  bool is_run_posted_ = false;   // whether run_operation_ waits in the loop
  bool waits_for_input_ = true;  // whether a drain waits for pending input
  std::size_t held_bytes_ = 0;   // bytes of all connections and handshakes
  std::size_t handshakes_ = 0;   // the number of handshakes that hold bytes
  gyre::detail::deferred_release<connection_group> release_{&connection_group::release};
};

}  // namespace gyre::net::detail
