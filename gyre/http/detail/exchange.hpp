// SPDX-License-Identifier: Apache-2.0
// exchange: a request, its handler while that runs, and the response to it.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/http/detail/body_source.hpp>
#include <gyre/http/detail/byte_sink.hpp>
#include <gyre/http/detail/incoming_body.hpp>
#include <gyre/http/detail/live_handler.hpp>
#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/detail/message_parser.hpp>
#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/detail/pending_wait.hpp>
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

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>

namespace gyre::http::detail {

class server_connection;
class server_core;
class server_shard;
struct server_route;
struct handler_fields;

/// One request of a connection and its response. A shard reuses the object, with its memory, for
/// later requests. Its connection may end before the handler: then the exchange outlives it, and
/// destroys itself at the handler's end.
///
/// Thread-safety: the loop's thread only.
class exchange final : public gyre::detail::slab_object, public byte_sink {
 public:
  explicit exchange(server_shard& shard) noexcept;
  exchange(const exchange&) = delete;
  exchange& operator=(const exchange&) = delete;
  ~exchange() = default;

  /// Takes over a whole head, and finds the route. Returns errc{} when it is valid. The request
  /// counts as work of the server already; the exchange ends that.
  [[nodiscard]] errc begin(server_connection& connection, std::span<const std::byte> head);
  [[nodiscard]] bool is_upgraded() const noexcept { return is_upgraded_; }
  /// The body of the request.
  [[nodiscard]] const incoming_body& body() const noexcept { return body_; }
  /// Sends "100 Continue" if the client waits for that.
  void send_continue();
  /// See incoming_body::receive(). The handler may end within the call.
  [[nodiscard]] errc receive_body(io::input& input);
  /// Gives the handler `error` when it has read what has come.
  void fail_body(errc error);
  /// The peer has ended its side: asks the handler to stop, unless the server serves such peers.
  void on_peer_ended();
  /// Calls the handler.
  void run();
  /// Wakes a writer that waits.
  void on_low_water();
  /// The connection has ended, and is not used any more.
  void detach() noexcept;
  [[nodiscard]] inplace_stop_token server_stop_token() const noexcept;
  [[nodiscard]] event_loop& loop() const noexcept;
  /// Null once the connection has ended.
  [[nodiscard]] net::tcp_connection* connection() const noexcept;
  /// Prepares for the next request; keeps memory that is not large.
  void reset() noexcept;
  /// Whether it may be used for another request: not after a stop, which cannot be taken back.
  [[nodiscard]] bool is_reusable() const noexcept { return !stop_source_.stop_requested(); }

 private:
  friend http::request;
  friend http::body_writer;
  friend http::upgraded_connection;

  // One of the exchange's two coroutines, in this order: the handler, and the function that writes
  // a streamed response.
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
    void work_ended() noexcept { owner_.on_coroutine_ended(); }

    exchange& owner_;
  };

  void respond_with(std::exception_ptr error) noexcept;
  void respond(response result) noexcept;
  void send(response& result);
  void replace_unsendable(response& result);
  void write_head(const response& result);
  void begin_body(const response& result, const handler_fields& own_fields) noexcept;
  static bool is_of(const response& result, body_source::kind kind) noexcept;
  static bool may_be_sent(const response& result) noexcept;
  std::uint64_t max_body_size() const noexcept;
  bool must_send_continue() const noexcept;
  bool has_whole_file(const body_source& source) noexcept;
  void send_source(body_source& source);
  void close_connection() noexcept;
  void record_if_asked();
  void start_stream(move_only_function<task<>(body_writer&)> write);
  void start_upgrade(move_only_function<task<>(upgraded_connection&)> run);
  void on_coroutine_ended() noexcept;
  void release_hold() noexcept;
  void conclude() noexcept;
  void conclude_handler() noexcept;
  void conclude_stream() noexcept;
  bool client_has_left() const noexcept;
  void report(const std::exception_ptr& error) noexcept;
  void finish() noexcept;
  void abandon() noexcept;
  void leave_connection() noexcept;
  void destroy_without_connection() noexcept;
  task<response> through_middleware(http::next_handler first);
  task<std::optional<std::span<const std::byte>>> next_chunk();
  task<> write(std::span<const std::byte> bytes) override;
  void send_chunk(std::span<const std::byte> bytes);

  server_shard* shard_;
  server_connection* connection_ = nullptr;
  std::shared_ptr<server_core> keeps_core_;  // without a connection
  http::request request_;
  request_head head_;
  io::buffer head_bytes_{{.prepend = 0}};
  incoming_body body_;
  message_writer writer_;
  route_match<std::unique_ptr<server_route>> match_;
  server_route* route_ = nullptr;
  std::size_t sent_in_a_row_ = 0;  // by writes that have not waited
  steady_time start_time_{};
  http::status status_ = http::status::ok;
  keep_alive keep_alive_ = keep_alive::kept;
  bool is_upgraded_ = false;
  std::uint8_t holds_ = 0;  // calls within which the coroutine may end: conclude() comes after them
  bool has_coroutine_ended_ = false;
  bool is_counted_ = false;  // the server counts the request as work
  inplace_stop_source stop_source_;
  std::optional<owned_coroutine<response>> handler_;
  std::optional<owned_coroutine<void>> stream_;
  move_only_function<task<>(body_writer&)> write_;
  move_only_function<task<>(upgraded_connection&)> run_;
  std::optional<upgraded_connection> body_writer_;
  pending_wait low_water_;              // of a function that writes
  std::unique_ptr<live_handler> live_;  // while tasks are recorded: last, as it refers to the rest
};

}  // namespace gyre::http::detail
