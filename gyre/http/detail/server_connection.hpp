// SPDX-License-Identifier: Apache-2.0
// server_connection: reads the requests of one connection of a server, and keeps their time limits.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/http/detail/head_scanner.hpp>
#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace gyre::http::detail {

/// The context of a tcp_connection. One request at a time: the next one is read when this one is
/// answered, so that responses go out in order.
///
/// | state   | bytes come                        | handler answers      | peer's FIN       | timer   |
/// |---------|-----------------------------------|----------------------|------------------|---------|
/// | head    | whole head: body, or handler runs | -                    | closes           | 408 (1) |
/// | body    | whole body: handler runs          | -                    | closes           | 408     |
/// | handler | streamed body, or they wait (2)   | head, or closing (3) | stop (5), closes | 408 (4) |
/// | closing | dropped                           | -                    | ends             | -       |
///
/// 1. Closes without a response when no byte of a head has come.
/// 2. With reading paused: the peer must wait.
/// 3. After `Connection: close`, in HTTP/1.0 without keep-alive, while the server stops, and if the
///    body of the request has not been read.
/// 4. Only while the handler waits for a streamed body.
/// 5. The handler is asked to stop, and may answer nevertheless; see
///    server_options::serve_half_closed. The FIN is noticed when no request waits in front of it.
///
/// Thread-safety: the loop's thread.
class server_connection final : public gyre::detail::slab_object, private timer_operation {
 public:
  server_connection(net::tcp_connection& tcp, server_shard& shard,
                    std::shared_ptr<server_core> core);
  server_connection(const server_connection&) = delete;
  server_connection& operator=(const server_connection&) = delete;
  ~server_connection();

  void on_message(io::input& input);
  void on_peer_ended();
  void on_low_water();
  /// The server's stop begins: lets the loop's handlers learn it.
  void begin_stop() noexcept;
  /// The server stops, and has delivered what had arrived: closes the connection if no byte of a
  /// request waits for its response.
  void drain();

  net::tcp_connection& tcp() const noexcept { return tcp_; }
  server_shard& shard() const noexcept { return shard_; }
  std::shared_ptr<server_core> share_core() const noexcept { return core_; }

  // The exchange calls the members from here to resume_input().
  bool must_close() const noexcept { return has_peer_ended_ || core_->is_draining(); }
  /// The shard's output, for this connection.
  io::buffer& output() {
    if (shard_.output_owner != this) take_output();
    return shard_.output;
  }
  /// Sends that output, followed by `body`, in one call.
  void flush(std::span<const std::byte> body = {});
  bool in_turn() const noexcept { return in_turn_; }
  /// The present time; within a turn, the time of its beginning.
  steady_time present() const noexcept;
  /// The exchange has ended, and is not used any more.
  void exchange_ended(keep_alive future) noexcept;
  /// The handler wants more of the streamed body.
  void want_body();
  /// Continues reading, if pause_input() was called.
  void resume_input() noexcept;

 private:
  enum class state : std::uint8_t { head, body, handler, closing };

  void take_output();
  bool read_head(io::input& input);
  bool read_body(io::input& input);
  void run_handler();
  void refuse(errc error);
  void send_error(http::status status, std::string_view text);
  void note_partial_head() noexcept;
  void begin_closing() noexcept;
  void close_tcp() noexcept;
  void set_deadline(steady_time deadline) noexcept;
  void set_body_deadline() noexcept;
  void pause_body_clock() noexcept;
  void clear_deadline() noexcept { deadline_ = steady_time::max(); }
  void on_deadline();
  void pause_input() noexcept;

  net::tcp_connection& tcp_;
  server_shard& shard_;
  const std::shared_ptr<server_core> core_;
  exchange* current_ = nullptr;
  steady_time deadline_ = steady_time::max();
  steady_time body_start_{};
  std::optional<steady_time> paused_at_;  // the handler does not wait for the body since then
  head_scanner scanner_;
  state state_ = state::head;
  bool has_head_begun_ = false;
  bool has_partial_head_ = false;  // bytes of a head have come, which count as work of the server
  bool awaits_first_request_ = true;
  bool in_turn_ = false;
  bool waits_for_turn_ = false;  // reading is paused by this object
  bool has_peer_ended_ = false;
  bool lingers_ = true;  // when it closes
};

}  // namespace gyre::http::detail
