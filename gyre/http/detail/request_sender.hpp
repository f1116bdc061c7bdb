// SPDX-License-Identifier: Apache-2.0
// request_sender: sends a request of a client: its head, and its body whole or streamed.
#pragma once

#include <gyre/http/client_options.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/detail/client_stream.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http::detail {

/// Parts of a head that depend on the way to the server.
struct request_route {
  bool absolute_form = false;            ///< for a proxy
  std::string proxy_authorization = {};  ///< empty: none
  std::string cookies = {};              ///< of the client's jar; empty: none
  bool accept_compressed = false;
};

/// Sends one request on one connection, once.
///
/// Lifetime: all that the constructor gets must outlive it.
class request_sender {
 public:
  request_sender(client_connection& to, const request_clock& clock, client_request& request,
                 const client_timeouts& timeouts) noexcept
      : to_(to), clock_(clock), request_(request), timeouts_(timeouts) {}
  request_sender(const request_sender&) = delete;
  request_sender& operator=(const request_sender&) = delete;

  bool has_body() const noexcept { return request_.has_body_; }
  bool expects_continue() const noexcept { return has_body() && request_.expects_continue_; }
  /// Whether the body goes out with the head, in one call.
  bool is_small() const noexcept;

  void write_head(const request_route& route);
  /// Sends the head, and a small body unless the server shall agree first.
  task<> send_head();
  /// Sends the rest.
  task<> send_body();
  /// For request_body_writer.
  task<> write_body(std::span<const std::byte> bytes);

  /// Frees the memory. After it, only the state may be asked for.
  void release() noexcept {
    head_ = {};
    chunk_ = {};
  }

  bool is_whole() const noexcept { return whole_; }
  /// Whether a streamed body has been asked for.
  bool is_body_used() const noexcept { return body_used_; }

 private:
  bool is_chunked() const noexcept {
    return request_.is_streamed() && !request_.stream_length_.has_value();
  }
  void write_framing();
  task<> write(std::span<const std::byte> bytes);
  task<> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

  client_connection& to_;
  const request_clock& clock_;
  client_request& request_;
  const client_timeouts& timeouts_;
  std::string head_;
  std::string chunk_;
  std::uint64_t written_ = 0;  // of a streamed body
  bool whole_ = false;
  bool body_used_ = false;
};

/// Whether the program wants the connection to end behind the response.
bool asks_for_close(const http::fields& request) noexcept;
/// The value of Authorization or Proxy-Authorization for the user of a URL ("Basic …").
std::string basic_credentials(std::string_view user_info);

}  // namespace gyre::http::detail
