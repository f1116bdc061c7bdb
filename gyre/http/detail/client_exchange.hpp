// SPDX-License-Identifier: Apache-2.0
// client_exchange: one request and its response, on a connection of a client's pool or a stream of
// HTTP/2.
//
// Both directions run at once while the body of a request is sent ("the upload"):
//
// | the server | the upload | the response |
// |---|---|---|
// | sends the head of a final response below 400 | continues | is read when the caller awaits it |
// | sends the head of a final response from 400 on | is stopped | is read |
// | ends the response | continues: the exchange ends after both | has ended |
// | closes the connection, or the stream of HTTP/2 | is stopped | ends, or is truncated |
//
// The upload is a separate coroutine, because client::stream() returns the response while the
// upload continues. If the response is destroyed first, the end of the upload destroys the
// exchange.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/detail/body_unpacker.hpp>
#include <gyre/http/detail/byte_sink.hpp>
#include <gyre/http/detail/client_stream.hpp>
#include <gyre/http/detail/incoming_response.hpp>
#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/http/detail/request_head.hpp>
#include <gyre/http/url.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace gyre::http::detail {

/// The state of a client_response. run() sends the request and reads the head of the response;
/// next_chunk() and read_body() read the body, at whose end the connection returns to the pool.
///
/// Thread-safety: the loop's thread.
/// Lifetime: may outlive the client. Destroyed by release().
class client_exchange final : public byte_sink {
 public:
  /// `uploader`: runs the coroutine that sends a long or streamed body.
  client_exchange(client_stream_pointer stream, request_clock clock, const client_options& options,
                  client_request request, executor& uploader);
  client_exchange(const client_exchange&) = delete;
  client_exchange& operator=(const client_exchange&) = delete;
  ~client_exchange() override = default;  // release() and on_upload_ended() destroy the object
  /// Destroys `exchange`. While an upload runs, only stops the upload, whose end then destroys
  /// `exchange`.
  static void release(client_exchange* exchange) noexcept;

  /// Sends the request, and reads the head of the final response. The upload may continue after
  /// run(), even if run() fails, unless the server refuses the request.
  task<> run(const request_route& route);
  /// Whether the body of the request is being sent.
  bool is_uploading() const noexcept { return !upload_ended_.is_set(); }
  /// Stops the upload. The returned operation waits until the upload has ended.
  manual_reset_event::wait_operation end_upload() noexcept {
    stop_upload_.request_stop();
    return upload_ended_.wait();
  }
  /// Throws the error of an ended upload, except for that of a broken connection: a server may
  /// close the connection to refuse the rest of the body.
  void check_upload() const;

  /// Whether the server has answered "Expect: 100-continue" by 417, and the request can be sent
  /// again.
  bool refuses_expectation() const noexcept;
  /// Returns the method of the request. Must not be called after forget_request().
  http::method method() const noexcept { return request_->method(); }
  /// Moves the request out, for another attempt. The upload must have ended.
  client_request take_request() noexcept { return *std::move(request_); }
  /// Declares that no further attempt needs the request. Frees the request once the upload has
  /// ended.
  void forget_request() noexcept;

  /// Returns the next bytes of the body, unpacked; nothing when both the body and the upload have
  /// ended.
  task<std::optional<std::span<const std::byte>>> next_chunk();
  /// Reads the rest of the body into body(). Errors: errc::body_too_large.
  task<> read_body();
  /// Reads and discards the rest of the body if it is short, so that the connection can be reused,
  /// or while the upload still runs.
  task<> drop_body();

  /// Stops the upload, and closes the connection unless the response was read to its end.
  task<> stop();
  /// Sends bytes of a streamed body. Called by request_body_writer.
  task<> write(std::span<const std::byte> bytes) override;

  /// Whether this request, and each one before a redirect, has been sent completely.
  bool is_request_complete() const noexcept { return writer_.is_complete() && !was_cut_; }
  /// Records that a redirect has replaced an earlier request of the call before that was sent
  /// completely.
  void note_cut_request() noexcept { was_cut_ = true; }

  const incoming_response& response() const noexcept { return response_; }
  const request_clock& clock() const noexcept { return clock_; }
  const http::url& url() const noexcept { return url_; }
  std::string& body() noexcept { return body_; }
  /// Whether `error` may mean that the server had closed the idle connection before the request
  /// came, so that another attempt is allowed: no byte of a response has come, and a streamed body
  /// was not used.
  bool is_stale(const std::exception_ptr& error) const noexcept;
  /// Whether the server has certainly not processed the request, which can be sent again.
  bool is_unprocessed() const noexcept { return !is_body_used_ && stream_->is_unprocessed(); }
  /// Whether another attempt must use HTTP/1.1.
  bool requires_http1() const noexcept { return stream_->requires_http1(); }
  /// Whether the server has answered 408 to a reused connection and closes it, because its time
  /// limit for idle connections has expired (RFC 9110, 15.5.9). Another attempt is then allowed.
  bool met_idle_limit() const noexcept;

 private:
  using piece = std::optional<std::span<const std::byte>>;

  // The reference of the upload's coroutine to the exchange. The destructor calls
  // on_upload_ended(), even if the coroutine was destroyed before it began.
  class upload_share {
   public:
    explicit upload_share(client_exchange& exchange) noexcept : exchange_(&exchange) {}
    upload_share(upload_share&& other) noexcept
        : exchange_(std::exchange(other.exchange_, nullptr)) {}
    upload_share& operator=(upload_share&&) = delete;
    ~upload_share() {
      if (exchange_ != nullptr) exchange_->on_upload_ended();
    }
    client_exchange* operator->() const noexcept { return exchange_; }

   private:
    client_exchange* exchange_;
  };

  task<> send_head(const request_route& route);
  bool sends_body_apart() const noexcept;
  task<bool> server_wants_body();
  task<bool> upload_and_read_head();
  task<> send_body();
  bool has_lost_server(const std::exception_ptr& send_error) const noexcept;
  bool note_received(bool has_received) noexcept;
  task<> read_head(steady_time first_byte);
  void skip_interim();
  task<piece> receive_piece();
  task<piece> receive_piece_while_uploading();
  steady_time end_of_gap() const noexcept;
  void begin_upload();
  static task<> upload(upload_share share);
  void on_upload_ended() noexcept;
  void release_request() noexcept;
  task<> finish_upload();
  task<bool> server_closes();
  void begin_body(bool unpack);
  piece take_unpacked();
  void end() noexcept;

  std::optional<client_request> request_;
  request_clock clock_;
  const client_timeouts timeouts_;
  const client_limits limits_;
  const http::url url_;
  client_stream_pointer stream_;  // null when the exchange has ended
  const bool is_reused_;
  keep_alive keep_alive_;
  executor& uploader_;
  message_writer writer_;
  const bool expects_continue_;
  bool is_body_used_ = false;  // whether the function of a streamed body was called
  incoming_response response_;
  bool has_begun_ = false;        // whether a byte of a response was received
  bool has_ended_ = false;        // whether the server has ended the connection or the stream
  bool gaps_are_limited_ = true;  // whether timeouts_.between_bytes applies
  std::optional<body_unpacker> unpacker_;
  bool has_unknown_coding_ = false;  // whether the codings of the body are not supported
  std::string body_;

  inplace_stop_source stop_upload_;
  manual_reset_event upload_ended_{true};  // not set while the upload runs
  std::exception_ptr upload_error_;
  bool keeps_request_ = true;  // whether another attempt may need the request
  // Whether the response was destroyed, so that on_upload_ended() destroys this.
  bool is_orphaned_ = false;
  bool was_cut_ = false;  // whether an earlier request was cut short: see note_cut_request()
};

}  // namespace gyre::http::detail
