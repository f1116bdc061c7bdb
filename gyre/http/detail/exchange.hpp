// SPDX-License-Identifier: Apache-2.0
// exchange: one request of a server, its handler while that runs, and the response.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/detail/ticks.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/http/detail/body_source.hpp>
#include <gyre/http/detail/byte_sink.hpp>
#include <gyre/http/detail/exchange_stream.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/incoming_body.hpp>
#include <gyre/http/detail/input_receiver.hpp>
#include <gyre/http/detail/live_handler.hpp>
#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/detail/message_parser.hpp>
#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/detail/pending_wait.hpp>
#include <gyre/http/detail/request_origin.hpp>
#include <gyre/http/detail/upgraded_request.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/handler.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/http/router.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/task/detail/started_task.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace gyre::http::detail {

class server_core;
class server_shard;
class upgrade_transport;
struct server_route;

/// One request of a connection and its response. A shard reuses the object, with its memory, for
/// later requests. If the connection, or the stream of HTTP/2, ends before the handler, the
/// exchange outlives it, and destroys itself when the handler has ended.
///
/// Thread-safety: the loop's thread only.
class exchange final : public gyre::detail::slab_object,
                       public intrusive_list_node,
                       public byte_sink {
 public:
  explicit exchange(server_shard& shard);
  /// Returns the bytes of the objects of a request, without what they point to.
  static constexpr std::size_t object_size() noexcept {
    return sizeof(exchange) + sizeof(request_state);
  }
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;
  ~exchange() override { unlink(); }

  /// Parses a whole head of HTTP/1, and finds the route. Returns errc{} when the head is valid. The
  /// caller has counted the request by server_core::begin_work(); the exchange calls end_work().
  [[nodiscard]] errc begin_request(exchange_stream& stream, std::span<const std::byte> head);
  /// Begins like the other overload with a head of HTTP/2. `is_end`: whether the request has no
  /// body.
  [[nodiscard]] errc begin_request(exchange_stream& stream, const header_block& head, bool is_end);
  [[nodiscard]] bool is_upgraded() const noexcept { return is_upgraded_; }
  /// Returns the body of the request.
  [[nodiscard]] const incoming_body& body() const noexcept { return body_; }
  /// Sends "100 Continue" if the client waits for it.
  void send_continue();
  /// Passes input to incoming_body::receive(), and wakes the handler, which may end within the
  /// call.
  [[nodiscard]] errc receive_body(io::input& input);
  /// Receives bytes of a body that HTTP/2 delimits, like the other overload.
  [[nodiscard]] errc receive_body(std::span<const std::byte> bytes);
  /// Called when a body that HTTP/2 delimits has ended. Wakes the handler, which may end within the
  /// call.
  void end_body(const header_block& trailers);
  /// Ends the body with `error`, which the handler gets after the bytes that have come.
  void fail_body(errc error);
  /// Called when the peer has ended its side. Requests the stop of the handler, unless
  /// server_options::serve_half_closed is set.
  void on_peer_ended();
  /// Calls the handler.
  void run_handler();
  /// Resumes a coroutine that waits in write().
  void on_low_water();
  /// Called when the protocol has ended to which a request was handed over: records it, and reports
  /// `error`. `has_left`: whether the connection has ended before.
  static void conclude_upgraded(net::tcp_connection& tcp, server_shard& shard,
                                upgraded_request& upgrade, const std::exception_ptr& error,
                                bool has_left) noexcept;
  /// Called when the connection or the stream has ended, which is not used afterwards. May destroy
  /// the exchange.
  void detach() noexcept;
  /// Requests the stop of the handler, and wakes it if it waits for the client. May destroy the
  /// exchange. Called by turn_budget::stop().
  void stop_handler() noexcept;
  [[nodiscard]] inplace_stop_token server_stop_token() const noexcept;
  [[nodiscard]] event_loop& loop() const noexcept;
  /// Returns null once the connection has ended.
  [[nodiscard]] net::tcp_connection* connection() const noexcept;
  /// Returns the client of the request.
  [[nodiscard]] const request_origin& origin() noexcept;
  /// Whether the connection encrypts, or did before it ended.
  [[nodiscard]] bool is_secure() const noexcept;
  /// Prepares for the next request. Keeps memory that is not large.
  void reset() noexcept;

  // The stream calls the members from here to close_connection() when it sends the response.
  [[nodiscard]] const http::request& request() const noexcept { return state_->request; }
  /// Determines the framing of the body. `content_length`: the Content-Length that the handler has
  /// set, if any.
  message_writer& begin_body(const response& result, std::optional<std::uint64_t> content_length);
  /// Returns the field with the request's id, which the response must have besides the handler's
  /// fields; one without a name if there is none.
  [[nodiscard]] field id_field(const response& result) const noexcept;
  /// Reports that the head of the response is too long for HTTP/2, and replaces the response by an
  /// error response.
  void refuse_head(response& result);
  /// Called after begin_body(). Returns whether the stream has to send the body of `result` now,
  /// which then counts as sent.
  [[nodiscard]] bool take_whole_body(const response& result) noexcept;
  /// Whether `text` is in the memory of the request, which is gone after the exchange.
  [[nodiscard]] bool holds(std::string_view text) const noexcept;
  [[nodiscard]] keep_alive future() const noexcept { return keep_alive_; }
  /// Makes the connection close after the exchange, and await the peer's FIN. keep_alive::close
  /// stays, because a peer that has requested the close sends no more.
  void close_connection() noexcept;
  /// Whether the object may serve another request: not after a stop was requested, which cannot be
  /// undone, and not after its memory of the request was freed.
  [[nodiscard]] bool is_reusable() const noexcept {
    return state_ != nullptr && !stop_source_.stop_requested();
  }

 private:
  friend http::next_handler;
  friend http::request;
  friend http::body_writer;
  friend http::upgraded_connection;
  friend upgrade_transport;

  // A coroutine of the exchange: first the handler runs, then the function that writes a streamed
  // response.
  template <class T>
  class owned_coroutine final : gyre::detail::started_task<owned_coroutine<T>, T> {
    using base = gyre::detail::started_task<owned_coroutine, T>;

   public:
    owned_coroutine(exchange& owner, event_loop& loop, task<T>&& work)
        : base(loop, std::move(work)), owner_(owner) {
      this->stop = owner.stop_source_.get_token();
    }
    ~owned_coroutine() = default;
    using base::start;
    using base::take_error;
    using base::take_result;

   private:
    friend base;
    void on_work_ended() noexcept { owner_.on_coroutine_ended(); }

    exchange& owner_;
  };

  // The request until it is answered, and the handler while it runs.
  struct request_state final : gyre::detail::slab_object {
    explicit request_state(exchange& owner) noexcept : request(owner) {}

    http::request request;
    request_head head;
    route_match<std::unique_ptr<server_route>> match;
    std::optional<request_origin> origin;  // set by the first call that asks for it
    std::array<char, 32> own_id;           // NOLINT(*-member-init): written before it is read
    std::optional<owned_coroutine<response>> handler;
  };

  void respond_with(const std::exception_ptr& error) noexcept;
  std::optional<response> response_to(const std::exception_ptr& error) noexcept;
  void respond(response result) noexcept;
  void send(response& result);
  void replace_unsendable(response& result);
  void attach(exchange_stream& stream) noexcept;
  errc describe_request(std::uint8_t major_version);
  errc prepare_request(std::uint8_t major_version);
  bool may_release_request() const noexcept;
  void release_request();
  bool restore_request() noexcept;
  bool has_handler() const noexcept { return state_ != nullptr && state_->handler; }
  field id_field_besides(const response& result) const noexcept;
  static bool is_of(const response& result, body_source::kind kind) noexcept;
  static bool may_be_sent(const response& result) noexcept;
  std::uint64_t max_body_size() const noexcept;
  bool must_send_continue() const noexcept;
  bool has_whole_file(const body_source& source) noexcept;
  void send_source(body_source& source);
  void record_if_enabled();
  void start_stream(move_only_function<task<>(body_writer&)> write);
  void start_upgrade(body_source& source);
  void hand_over(body_source& source);
  void describe_upgraded(exchange_stream& stream, const upgraded_request& upgrade);
  void on_coroutine_ended() noexcept;
  void release_hold() noexcept;
  void conclude_coroutine() noexcept;
  void conclude_handler() noexcept;
  void conclude_stream() noexcept;
  bool client_has_left() const noexcept;
  void report_error(const std::exception_ptr& error) noexcept;
  void finish() noexcept;
  void record_access(bool is_complete) noexcept;
  void record_request() noexcept;
  void assign_id();
  void abandon() noexcept;
  void leave_connection() noexcept;
  void destroy_without_connection() noexcept;
  task<response> through_middleware(http::next_handler first);
  task<std::optional<std::span<const std::byte>>> next_chunk();
  void wake_reader() noexcept;
  void pass_to_receiver(io::input& input);
  task<> write(std::span<const std::byte> bytes) override;
  void check_may_write() const;
  write_outcome write_now(std::span<const std::byte> bytes);
  bool must_yield(std::size_t size) noexcept;
  task<> finish_write(std::span<const std::byte> bytes, write_outcome outcome);

  server_shard* shard_;
  exchange_stream* stream_ = nullptr;
  std::shared_ptr<server_core> keeps_core_;  // owns the core once the stream has ended
  std::unique_ptr<request_state> state_;     // null after release_request()
  io::buffer head_bytes_{{.prepend = 0}};    // the text of the head, which lives as long as state_
  std::unique_ptr<char[]> released_head_;    // the text of a head whose request was released
  std::uint32_t released_size_ = 0;
  incoming_body body_;
  message_writer writer_;
  server_route* route_ = nullptr;
  std::span<middleware* const> middlewares_;
  std::size_t sent_in_a_row_ = 0;  // bytes written since write() last waited or yielded
  steady_time start_time_{};
  // When a waiting handler began, for the flight recorder; or zero.
  gyre::detail::tick_count begun_ = 0;
  bool was_secure_ = false;  // whether the ended connection was encrypted
  bool was_cut_ = false;     // whether a streamed response has failed
  http::status status_ = http::status::ok;
  keep_alive keep_alive_ = keep_alive::kept;
  bool is_upgraded_ = false;
  // The number of running calls in which a coroutine may end; conclude_coroutine() waits for 0.
  std::uint8_t holds_ = 0;
  bool has_coroutine_ended_ = false;
  bool is_counted_ = false;  // whether the server counts the request as work
  inplace_stop_source stop_source_;
  std::optional<owned_coroutine<void>> writing_;  // the coroutine that writes a streamed response
  move_only_function<task<>(body_writer&)> write_;
  move_only_function<task<>(upgraded_connection&)> run_;
  std::optional<upgraded_connection> body_writer_;
  input_receiver* receiver_ = nullptr;  // the receiver that waits for input after an upgrade
  pending_wait low_water_;              // the wait of a coroutine in write()
  // Made while tasks are recorded; last, as it refers to other members.
  std::unique_ptr<live_handler> live_;
};

// These functions are inlined, because HTTP/1.1 calls them for each response.

inline message_writer& exchange::begin_body(const response& result,
                                            std::optional<std::uint64_t> content_length) {
  const bool is_head = state_->request.method_ == method::head;
  body_kind kind = body_kind::length;
  std::uint64_t length = result.body().size();
  if (result.source_ != nullptr) {
    if (is_of(result, body_source::kind::stream) && !result.source_->length) {
      kind = body_kind::chunked;
    }
    length = result.source_->length.value_or(result.source_->count);
  } else if (is_head && length == 0) {
    // A handler of HEAD may set the length of a body that it does not have. Without that field the
    // length is unknown, and must not be sent as zero (RFC 9110, 8.6).
    if (!content_length) kind = body_kind::none;
    length = content_length.value_or(0);
  }
  writer_.begin_response(status_, is_head, state_->request.minor_version_, kind, length);
  return writer_;
}

inline field exchange::id_field(const response& result) const noexcept {
  return state_->request.id_.empty() ? field() : id_field_besides(result);
}

inline bool exchange::take_whole_body(const response& result) noexcept {
  if (result.source_ != nullptr || writer_.is_complete()) return false;
  writer_.complete();
  return true;
}

inline bool exchange::is_of(const response& result, body_source::kind kind) noexcept {
  return result.source_ != nullptr && result.source_->type == kind;
}

}  // namespace gyre::http::detail
