// SPDX-License-Identifier: Apache-2.0
// server_connection: reads the requests of one connection of a server, and enforces time limits.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/http/detail/body_clock.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/deadline_timer.hpp>
#include <gyre/http/detail/exchange_stream.hpp>
#include <gyre/http/detail/head_scanner.hpp>
#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <cstdint>
#include <memory>
#include <string_view>

namespace gyre::http::detail {

/// The context of a tcp_connection. Serves one request at a time: the next request is read after
/// the response to the current one, so that responses are sent in order.
///
/// | state   | bytes come                        | handler responds     | peer's FIN       | timer   |
/// |---------|-----------------------------------|----------------------|------------------|---------|
/// | head    | whole head: body, or handler runs | -                    | closes           | 408 (1) |
/// | body    | whole body: handler runs          | -                    | closes           | 408     |
/// | handler | streamed body, or bytes wait (2)  | head, or closing (3) | stop (5), closes | 408 (4) |
/// | closing | dropped                           | -                    | ends             | -       |
///
/// 1. Closes without a response if no byte of a head has come.
/// 2. Reading is paused, so that the peer must wait.
/// 3. After `Connection: close`, in HTTP/1.0 without keep-alive, while the server stops, and if the
///    body of the request has not been read.
/// 4. Only while the handler waits for a streamed body.
/// 5. The stop of the handler is requested, but the handler may still respond; see
///    server_options::serve_half_closed. The FIN is noticed once no earlier request waits.
///
/// Thread-safety: the loop's thread.
class server_connection final : public gyre::detail::slab_object,
                                public exchange_stream,
                                public connection_protocol,
                                private deadline_timer {
 public:
  server_connection(net::tcp_connection& tcp, server_shard& shard,
                    std::shared_ptr<server_core> core);
  ~server_connection() override;

  void on_message(io::input& input) override;
  void on_peer_ended() override;
  void on_low_water() override;
  void begin_stop() noexcept override;
  void drain() override;

  void flush_output() noexcept override;

 private:
  std::shared_ptr<server_core> share_core() const override { return core_; }
  bool can_send() const noexcept override { return tcp_.can_send(); }
  bool must_close() const noexcept override { return has_peer_ended_ || core_->is_draining(); }
  void send_continue() override;
  void send(exchange& sender, response& result) override;
  void begin_stream() override { flush(); }
  void send_file(body_source& source) override;
  write_outcome write(message_writer& framing, std::span<const std::byte> bytes) override;
  void end_body(const message_writer& framing, const http::fields& trailers) override;
  void abort() noexcept override;
  void want_body() override;
  void on_body_taken(std::size_t count) noexcept override;
  void hand_over(connection_protocol_pointer successor) noexcept override;
  void on_exchange_ended(keep_alive future) noexcept override;

  enum class state : std::uint8_t { head, body, handler, closing };

  io::buffer& output() { return shard_.output_of(*this); }
  // Sends the output of this connection, followed by `body`, in one call.
  void flush(std::span<const std::byte> body = {});
  // Returns the current time; within a turn, the time at which the turn began.
  steady_time current_time() const noexcept;
  void write_head(exchange& sender, const response& result);
  bool may_begin_http2(std::span<const std::byte> head) const noexcept;
  void switch_to_http2(io::input& input);
  void switch_to_successor(io::input& input);
  bool read_head(io::input& input);
  bool read_body(io::input& input);
  void run_handler();
  void refuse(errc error);
  void send_error(http::status code, std::string_view text);
  void note_partial_head() noexcept;
  void begin_closing() noexcept;
  void close_tcp() noexcept;
  void set_deadline(steady_time deadline) noexcept {
    deadline_timer::set_deadline(shard_.loop(), deadline);
  }
  void set_body_deadline() noexcept;
  void pause_body_clock() noexcept;
  void on_deadline();
  void pause_input() noexcept;
  void resume_input() noexcept;

  const std::shared_ptr<server_core> core_;
  exchange* current_exchange_ = nullptr;
  // The protocol that takes the connection over in this turn.
  connection_protocol_pointer successor_;
  body_clock body_clock_;
  head_scanner scanner_;
  state state_ = state::head;
  bool has_head_begun_ = false;    // whether the time limit of a head has begun
  bool has_partial_head_ = false;  // whether bytes of a head have come and count as work
  bool awaits_first_request_ = true;
  bool begins_http2_ = false;    // whether the preface of HTTP/2 has come
  bool is_in_turn_ = false;      // whether on_message() runs
  bool waits_for_turn_ = false;  // whether pause_input() has paused reading
  bool has_peer_ended_ = false;
  bool lingers_ = true;  // whether closing awaits the peer's FIN
};

}  // namespace gyre::http::detail
