// SPDX-License-Identifier: Apache-2.0
// http2_client_connection: a client's connection of HTTP/2, which several requests share.
//
//     auto connection = http2_client_connection::begin(std::move(lease), loop, options, &owner);
//     if (connection->has_room()) auto stream = connection->open_stream();
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/detail/client_connection.hpp>
#include <gyre/http/detail/client_stream.hpp>
#include <gyre/http/detail/deadline_timer.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/http2_client_stream.hpp>
#include <gyre/http/detail/http2_session.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/task/detail/started_task.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

namespace gyre::http::detail {

/// The session of a connection, and the coroutines that read and write it. docs/design/http2.md
/// explains its limits.
///
/// | state | event | next |
/// |---|---|---|
/// | open | the server announces the end, the age limit, a write fails | open, without room |
/// | open | end, error or violation by the server; silence; idle for too long | ended: all streams are closed |
/// | ended | the loop's next turn | the connection is closed, and its lease ends |
///
/// Thread-safety: the loop's thread.
/// Lifetime: shared by its owner and its streams in use.
class http2_client_connection final : public std::enable_shared_from_this<http2_client_connection>,
                                      private deadline_timer {
 public:
  /// The owner of a connection, which is told of changes. It must not release the connection from
  /// within on_room() and on_ended().
  class owner {
   public:
    owner() = default;
    owner(const owner&) = delete;
    owner& operator=(const owner&) = delete;

    /// Called when has_room() may have become true.
    virtual void on_room() noexcept = 0;
    /// Called when the connection has ended.
    virtual void on_ended() noexcept = 0;
    /// Called after on_ended(), when the connection is closed. The owner may release it.
    virtual void on_closed(http2_client_connection& connection) noexcept = 0;

   protected:
    ~owner() = default;
  };

  /// `lease` is kept until the connection has ended. Sends the preface and SETTINGS.
  static std::shared_ptr<http2_client_connection> begin(client_lease lease, event_loop& loop,
                                                        const client_options& options,
                                                        owner& first_owner);
  http2_client_connection(client_lease lease, event_loop& loop, const client_options& options,
                          owner& first_owner);
  http2_client_connection(const http2_client_connection&) = delete;
  http2_client_connection& operator=(const http2_client_connection&) = delete;
  ~http2_client_connection();

  bool has_ended() const noexcept { return has_ended_; }
  /// Whether no request uses the connection.
  bool is_idle() const noexcept { return stream_count_ == 0; }
  /// Whether another request may use the connection.
  bool has_room() const noexcept;
  /// Whether a WebSocket may use the connection, which the server must allow. Half of the streams
  /// are left to requests, because a WebSocket may stay for ever.
  bool has_room_for_websocket() const noexcept;
  bool has_websockets() const noexcept { return websocket_count_ != 0; }
  /// Reserves a stream. Requires has_room().
  [[nodiscard]] client_stream_pointer open_stream();
  /// Called when the owner releases the connection: the owner is not called any more.
  void leave_owner() noexcept { owner_ = nullptr; }

  // The streams call the members from here to note_released().
  http2_session& session() noexcept { return session_; }
  const client_options& options() const noexcept { return options_; }
  header_block& scratch_head() noexcept { return scratch_head_; }
  /// Whether a response has come.
  bool has_answered() const noexcept { return has_answered_; }
  bool can_send() const noexcept { return !has_ended_ && !has_write_failed_; }
  /// Sends frames in the loop's next turn, with those of all requests of this turn.
  void schedule_flush() noexcept;
  /// Called when the stream has more to send.
  void resume_stream(std::int32_t stream) noexcept;
  /// Called when the exchange has taken bytes of the stream's response.
  void credit(std::int32_t stream, std::size_t count) noexcept;
  /// Called when the session has taken bytes of a stream.
  void note_taken() noexcept { has_taken_ = true; }
  /// Called when a stream becomes a WebSocket.
  void note_websocket() noexcept { ++websocket_count_; }
  /// Takes a stream out, which then counts no more. Idempotent.
  void remove_stream(http2_client_stream& stream) noexcept;
  /// Called when a stream was closed or released.
  void note_change() noexcept;

 private:
  // Runs one of the two coroutines, which the destructor destroys.
  class worker final : gyre::detail::started_task<worker> {
    using base = gyre::detail::started_task<worker>;

   public:
    worker(event_loop& loop, task<> work) : base(loop, std::move(work)) {}
    ~worker() = default;
    using base::start;

   private:
    friend base;
    void on_work_ended() noexcept {}
  };
  // A timer that starts the writing coroutine. Unlike a task of the loop it can be cancelled.
  class flush_timer final : public timer_operation {
   public:
    explicit flush_timer(http2_client_connection& connection) noexcept
        : timer_operation(
              [](timer_operation& timer) { static_cast<flush_timer&>(timer).connection_.flush(); }),
          connection_(connection) {}

   private:
    http2_client_connection& connection_;
  };

  static task<> read_frames(http2_client_connection& self);
  static task<> write_frames(http2_client_connection& self);
  void receive(std::span<const std::byte> bytes);
  void flush();
  void fill_output();
  void begin_write_limit() noexcept;
  void on_write_failed(const std::exception_ptr& error) noexcept;
  void handle_events();
  void handle_event(const http2_event& event);
  void wake_senders() noexcept;
  std::size_t max_streams() const noexcept;
  void end_if_over() noexcept;
  void end(const std::exception_ptr& error) noexcept;
  void fail(std::error_code error, const char* reason) noexcept;
  void on_timer();
  void apply_time_limits(steady_time time);
  void note_deadline(steady_time deadline) noexcept;
  void close() noexcept;

  event_loop& loop_;
  const client_options options_;
  owner* owner_;
  client_lease lease_;
  http2_session session_;
  intrusive_list<http2_client_stream> streams_;
  std::size_t stream_count_ = 0;
  std::size_t websocket_count_ = 0;
  header_block scratch_head_;
  io::buffer output_{{.prepend = 0}};
  flush_timer flush_timer_;
  const steady_time end_of_life_;
  steady_time silent_since_;
  steady_time idle_since_;
  steady_time write_deadline_ = steady_time::max();
  steady_time ping_deadline_ = steady_time::max();  // when the PING must have been acknowledged
  bool has_answered_ = false;
  bool has_taken_ = false;
  bool is_writing_ = false;
  bool has_write_failed_ = false;
  bool has_ended_ = false;
  std::optional<worker> reader_;  // last: the workers use the members above
  std::optional<worker> writer_;
};

}  // namespace gyre::http::detail
