// SPDX-License-Identifier: Apache-2.0
// http2_stream: one request of an HTTP/2 connection: its exchange, the credit for its body, and the
// bytes of its response that wait to be sent.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/http/detail/body_clock.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/exchange_stream.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/http2_session.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/status.hpp>
#include <gyre/io/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http::detail {

class http2_connection;

/// A stream, from the head of its request until it is closed. docs/design/http2.md has the table of
/// its states.
///
/// Thread-safety: the loop's thread.
class http2_stream final : public gyre::detail::slab_object,
                           public intrusive_list_node,
                           public exchange_stream,
                           public http2_body_source {
 public:
  enum class state : std::uint8_t { receiving, waiting, running, sending };

  http2_stream(http2_connection& connection, std::int32_t id) noexcept;
  http2_stream(const http2_stream&) = delete;
  http2_stream& operator=(const http2_stream&) = delete;
  ~http2_stream();

  std::int32_t id() const noexcept { return id_; }
  state current_state() const noexcept { return state_; }
  /// Whether the exchange of the stream has not ended.
  bool has_exchange() const noexcept { return exchange_ != nullptr; }

  /// Called with the head of the request.
  void begin(const header_block& head, bool is_end);
  /// Responds with an error, if the handler has not been called; else the handler gets the error
  /// when it reads the body.
  void refuse(errc error);
  /// Called with bytes of the body, which may end the exchange.
  void receive(std::span<const std::byte> bytes);
  void end_request(const header_block& trailers);
  /// Called when the head of the response has become frames.
  void note_head_sent() noexcept;
  /// Calls the handler of a stream in the state `waiting`.
  void run();
  /// Lets the client send more of the body, if it needs to and the connection has memory.
  void enlarge_window() noexcept;
  /// Lets the time limit of the body run or rest: see is_held_up().
  void update_body_clock() noexcept;
  /// Resets the stream, and ends the exchange.
  void reset(http2_error error) noexcept;
  /// Called when the peer has ended its side of the connection.
  void on_peer_ended();
  /// Called when the stream is closed. Detaches the exchange, whose handler may still run.
  void close() noexcept;

  /// Whether bytes of the response wait to be sent.
  bool has_output() const noexcept { return output_size() != 0; }
  /// Called when all windows are used up that this stream could use. Returns when to reset the
  /// stream, unless the client has taken enough until then.
  steady_time note_blocked(steady_time time) noexcept;
  /// Called when no output waits for the windows.
  void note_unblocked() noexcept { stall_deadline_ = steady_time::max(); }
  /// Whether bytes of the response wait for the client's windows.
  bool is_blocked() const noexcept;
  /// Whether to reset the stream: the client has taken too little while it was blocked. If not, the
  /// deadline is moved to the future.
  bool has_stalled(steady_time time) noexcept;
  steady_time stall_deadline() const noexcept { return stall_deadline_; }
  /// Returns when the time limit of the request's body expires.
  steady_time body_deadline() const noexcept { return body_deadline_; }
  /// Wakes a writer that waits, if enough of its bytes were sent. Returns false if one still waits.
  bool wake_writer();

 private:
  // The functions of exchange_stream.
  std::shared_ptr<server_core> share_core() const override;
  bool can_send() const noexcept override;
  bool must_close() const noexcept override { return false; }
  void send_continue() override;
  void send(exchange& sender, response& result) override;
  void begin_stream() override {}
  void send_file(body_source& source) override;
  write_outcome write(message_writer& framing, std::span<const std::byte> bytes) override;
  void end_body(const message_writer& framing, const http::fields& trailers) override;
  void abort() noexcept override;
  void want_body() override;
  void on_body_taken(std::size_t count) noexcept override;
  void hand_over(connection_protocol_pointer /*successor*/) noexcept override {}
  void on_exchange_ended(keep_alive future) noexcept override;

  // The functions of http2_body_source.
  offer offer_bytes(std::size_t max_size) noexcept override;
  bool take_bytes(io::buffer& output, std::size_t size) override;
  const header_block* trailers() const noexcept override { return trailers_.get(); }

  std::size_t output_size() const noexcept;
  void become_ready();
  void send_error(http::status code, std::string_view text);
  void respond(const header_block& head, bool has_body);
  void set_body_deadline();
  void pause_body_clock() noexcept;
  bool is_held_up() const noexcept;
  void grant_window() noexcept;
  void detach_exchange() noexcept;
  void release_request() noexcept;
  void take_early_input();

  http2_connection& connection_;
  exchange* exchange_ = nullptr;
  const std::int32_t id_;
  state state_ = state::receiving;
  bool is_open_ = true;  // false when the stream was closed or reset
  bool has_responded_ = false;
  bool has_more_output_ = false;  // whether the program will write more of the response
  bool waits_for_drain_ = false;  // whether a writer waits until bytes were sent
  bool is_head_request_ = false;

  std::size_t head_cost_ = 0;    // the memory of the request's head, while the exchange has it
  std::size_t head_output_ = 0;  // the size of the response's head, while it waits to be sent
  // The members from here to body_deadline_ belong to the request's body.
  std::size_t held_ = 0;      // the bytes of a whole body in memory
  std::size_t reserved_ = 0;  // held_, and the bytes that the client may send
  // The bytes of a streamed body that gave no credit to the connection yet.
  std::size_t uncredited_ = 0;
  // The input of an extended CONNECT before its handler has responded. The upgraded stream gets the
  // bytes, which gave no credit to the connection.
  struct early_input {
    io::buffer bytes{{.prepend = 0}};
    bool has_ended = false;
  };
  std::unique_ptr<early_input> early_;  // null after the response, and for other requests
  body_clock body_clock_;
  steady_time body_deadline_ = steady_time::max();

  // The response's body is in `rest_`, `pending_` or `file_`.
  std::string body_;
  std::string_view rest_;  // unsent bytes in body_, or in memory that the program owns
  io::buffer pending_{{.prepend = 0}};
  unique_fd file_;
  std::uint64_t file_offset_ = 0;
  std::uint64_t file_rest_ = 0;
  std::unique_ptr<header_block> trailers_;
  steady_time stall_deadline_ = steady_time::max();
  std::uint64_t taken_while_blocked_ = 0;
};

}  // namespace gyre::http::detail
