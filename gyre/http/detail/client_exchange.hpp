// SPDX-License-Identifier: Apache-2.0
// client_exchange: one request and its response, on a connection of a client's pool.
#pragma once

#include <gyre/http/client_options.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/compression.hpp>
#include <gyre/http/detail/client_stream.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/http/detail/request_sender.hpp>
#include <gyre/http/detail/response_reader.hpp>
#include <gyre/http/url.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

using client_lease = net::pooled_connection<client_connection>;

/// The state of a client_response: begun by run(), it reads the body, and gives the connection back
/// at its end.
///
/// Thread-safety: the loop's thread.
/// Lifetime: may outlive the client.
class client_exchange {
 public:
  client_exchange(client_lease connection, request_clock clock, const client_options& options,
                  const client_request& request);
  client_exchange(const client_exchange&) = delete;
  client_exchange& operator=(const client_exchange&) = delete;

  /// Sends the request, which must live until the end of the call, and reads the response's head.
  /// A server may answer before it has the whole request, which then ends.
  task<> run(client_request& request, const request_route& route);

  /// The next bytes of the body, unpacked.
  task<std::optional<std::span<const std::byte>>> next_chunk();
  /// Reads the rest of the body into body(). Errors: errc::body_too_large.
  task<> read_body();
  /// Reads what is left of a body of no use, if it is short, so that the connection can be kept.
  task<> drop_body();

  const response_reader& reader() const noexcept { return reader_; }
  const request_clock& clock() const noexcept { return clock_; }
  const http::url& url() const noexcept { return url_; }
  std::string& body() noexcept { return body_; }
  /// Whether a failed exchange may have met a connection that the server had just closed, and has
  /// done nothing that forbids another attempt.
  bool is_stale(const std::exception_ptr& error) const noexcept;

 private:
  task<> send_and_read_head(request_sender& sender);
  task<bool> must_send_body(request_sender& sender);
  task<> race_body(request_sender& sender);
  task<std::exception_ptr> try_send_body(request_sender& sender);
  task<std::exception_ptr> try_read_head();
  task<> read_head_after(std::exception_ptr send_error);
  void begin_body(bool unpack);
  std::optional<std::span<const std::byte>> unpack();
  void end() noexcept;

  request_clock clock_;
  const client_timeouts timeouts_;
  const client_limits limits_;
  const http::url url_;
  client_lease connection_;
  const bool reused_;
  const bool closes_;  // the request says so
  response_reader reader_;
  std::optional<decompressor> decompressor_;
  std::span<const std::byte> packed_;
  std::vector<std::byte> unpacked_;
  bool more_unpacked_ = false;  // the decompressor has filled all room
  std::string body_;
  bool sent_ = false;
  bool body_used_ = false;
};

/// Whether `error` is that of a connection which has broken.
bool is_broken_connection(const std::exception_ptr& error) noexcept;
/// Whether `error` is errc::timed_out.
bool is_timeout(const std::exception_ptr& error) noexcept;

}  // namespace gyre::http::detail
