// SPDX-License-Identifier: Apache-2.0
// http2_connection: serves the requests of one HTTP/2 connection, several at a time.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/detail/posted_flush.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/deadline_timer.hpp>
#include <gyre/http/detail/has_http2.hpp>
#include <gyre/http/detail/http2_session.hpp>
#include <gyre/http/detail/http2_stream.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/http/detail/turn_budget.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>

namespace gyre::http::detail {

/// Begins HTTP/2 on a connection, from the first byte of the client's preface on.
[[nodiscard]] connection_protocol_pointer make_http2_connection(net::tcp_connection& tcp,
                                                                server_shard& shard,
                                                                std::shared_ptr<server_core> core);

/// The context of a tcp_connection of HTTP/2. Passes events of the session to streams, and frames
/// of the session to the connection. docs/design/http2.md explains its limits.
///
/// Thread-safety: the loop's thread.
class http2_connection final : public gyre::detail::slab_object,
                               public connection_protocol,
                               private sharing_client,
                               private deadline_timer {
 public:
  http2_connection(net::tcp_connection& tcp, server_shard& shard,
                   std::shared_ptr<server_core> core);
  http2_connection(const http2_connection&) = delete;
  http2_connection& operator=(const http2_connection&) = delete;
  ~http2_connection() override;

  void on_message(io::input& input) override;
  void on_peer_ended() override;
  void on_low_water() override { flush(); }
  void begin_stop() noexcept override;
  void drain() override;

  // The streams call the functions from here to note_deadline().
  net::tcp_connection& tcp() const noexcept { return tcp_; }
  server_shard& shard() const noexcept { return shard_; }
  server_core& core() const noexcept { return *core_; }
  http2_session& session() noexcept { return session_; }
  bool can_send() const noexcept { return !is_closing_ && tcp_.can_send(); }
  /// Returns the time at which the current turn began, or the current time.
  steady_time current_time() const noexcept;
  /// Returns the core. Until all copies of the pointer are destroyed, a handler without a stream
  /// counts as running, and `bytes` as held.
  [[nodiscard]] std::shared_ptr<server_core> keep_slot(std::size_t bytes) const;
  /// Sends frames at the end of this turn, or of the loop's current work.
  void schedule_flush() noexcept;
  /// Counts bytes of whole bodies in memory. May reset the newest incomplete request.
  void hold_body(std::size_t count);
  void release_body(std::size_t count) noexcept { held_bodies_ -= count; }
  /// Reserves memory for bytes of a whole body that the client may send at any time.
  void reserve_body(std::size_t count) noexcept { reserved_bodies_ += count; }
  /// Reserves the memory if there is enough, or if the request is the oldest incomplete one.
  [[nodiscard]] bool try_reserve_body(const http2_stream& stream, std::size_t count) noexcept;
  void unreserve_body(std::size_t count) noexcept;
  /// Whether an older request must end before the body may get more memory.
  bool must_wait_for_memory(const http2_stream& stream) noexcept {
    return !core_->has_no_http2_memory() && !is_oldest_receiving(stream);
  }
  /// Counts the head of a request in progress.
  void add_head(std::size_t cost) noexcept { held_heads_ += cost; }
  void remove_head(std::size_t cost) noexcept { held_heads_ -= cost; }
  /// Counts bytes of streamed bodies that wait for their handlers.
  void add_input(std::size_t count) noexcept { input_ += count; }
  void remove_input(std::size_t count) noexcept { input_ -= count; }
  /// Counts bytes of responses that wait.
  void add_output(std::size_t count) noexcept { waiting_output_ += count; }
  void remove_output(std::size_t count) noexcept { waiting_output_ -= count; }
  /// Whether another handler may be called.
  bool may_run() const noexcept { return waiting_output_ < max_output(); }
  /// Called when a stream waits until may_run().
  void note_waiting() noexcept { has_waiting_ = true; }
  /// Whether streamed responses may be written.
  bool may_write() const noexcept { return waiting_output_ / 2 < max_output(); }
  /// Called when a writer waits for http2_stream::wake_writer().
  void note_waiting_writer() noexcept { has_waiting_writer_ = true; }
  void note_deadline(steady_time deadline) noexcept;

 private:
  // A timer that continues to read in the loop's next turn.
  class turn_timer final : public timer_operation {
   public:
    explicit turn_timer(http2_connection& connection) noexcept
        : timer_operation([](timer_operation& timer) {
            static_cast<turn_timer&>(timer).connection_.tcp_.resume_reading();
          }),
          connection_(connection) {}

   private:
    http2_connection& connection_;
  };

  void begin_share() noexcept override;
  std::size_t allowed_work(bool has_share) noexcept;
  bool is_new() const noexcept;
  bool waits_for_turn() const noexcept {
    return sharing_client::is_linked() || next_turn_.linked();
  }
  void yield_turn();
  void handle_events();
  void handle_event(const http2_event& event);
  void begin_request(const http2_event& event);
  void flush() noexcept;
  void send_frames();
  void run_waiting();
  void grant_bodies();
  void update_body_clocks() noexcept;
  void note_blocked_streams() noexcept;
  void note_unblocked_streams() noexcept;
  void end_if_over() noexcept;
  void remove_stream(http2_stream& stream) noexcept;
  void detach_all() noexcept;
  void close_tcp() noexcept;
  void on_deadline();
  void apply_time_limits(steady_time time);
  bool is_oldest_receiving(const http2_stream& stream) noexcept;
  bool has_room_for_head(std::size_t cost) const noexcept;
  bool has_room_for_body() const noexcept;
  void wake_writers();
  std::size_t request_count() const noexcept { return stream_count_ + detached_handlers_->count; }
  std::size_t max_requests() const noexcept {
    return std::max<std::size_t>(present_limit(core_->options.http2.max_streams), 1);
  }
  std::size_t memory() const noexcept;
  void update_memory();
  bool holds_back_bodies() noexcept;
  // Returns a limit of the connection, which is lower while the server holds much.
  std::size_t present_limit(std::size_t limit) const noexcept;
  std::size_t max_output() const noexcept {
    return std::max<std::size_t>(present_limit(core_->options.http2.response_memory), 1);
  }
  std::size_t max_pending() const noexcept;

  net::tcp_connection& tcp_;
  server_shard& shard_;
  const std::shared_ptr<server_core> core_;
  // Counts the handlers that run although their streams are closed, and their memory.
  struct detached_handlers {
    std::size_t count = 0;
    std::size_t bytes = 0;
  };
  const std::shared_ptr<detached_handlers> detached_handlers_;
  const std::shared_ptr<const char> life_;  // only the connection owns it
  gyre::detail::posted_flush posted_flush_;
  http2_session session_;
  std::size_t max_work_;    // the work that the client may cause in a turn
  bool has_begun_ = false;  // whether bytes have come
  bool has_share_ = false;  // whether the client may cause work of turn_budget::share
  turn_timer next_turn_;
  intrusive_list<http2_stream> streams_;  // the streams, the oldest first
  std::size_t stream_count_ = 0;
  std::size_t waiting_output_ = 0;   // the bytes of responses that wait
  std::size_t held_bodies_ = 0;      // the bytes of bodies that are read as a whole
  std::size_t reserved_bodies_ = 0;  // held_bodies_, and the bytes that the client may send
  std::size_t held_heads_ = 0;
  std::size_t input_ = 0;           // the bytes of streamed bodies that wait
  std::size_t counted_memory_ = 0;  // this connection's part of server_core::http2_memory
  const std::size_t idle_memory_;   // this connection's part of server_core::idle_http2_memory
  bool is_counted_by_tcp_ = false;
  steady_time idle_since_;
  steady_time head_begun_ = steady_time::max();
  bool is_in_turn_ = false;
  bool is_flushing_ = false;
  bool must_flush_again_ = false;
  bool has_waiting_writer_ = false;
  bool has_waiting_ = false;        // whether some stream waits for its handler's turn
  bool must_grant_ = false;         // whether some body may get credit that was held back
  bool is_window_used_up_ = false;  // whether streams wait for the connection's window
  bool grants_later_ = false;       // whether the memory of the server allows no credit
  bool has_paused_ = false;         // whether reading waits until output was sent
  bool is_draining_ = false;
  bool has_peer_ended_ = false;
  bool is_closing_ = false;
};

}  // namespace gyre::http::detail
