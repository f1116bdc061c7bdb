// SPDX-License-Identifier: Apache-2.0
// http_exchange: a request of a testing::http_client that is in progress, and its response.
//
//     gyre::testing::http_exchange prices = client.start("/prices");  // a stream of events
//     EXPECT_EQ(prices.next_event()->data, "7");
//     prices.leave();  // the handler is requested to stop
#pragma once

#include <gyre/http/client_response.hpp>
#include <gyre/http/server_sent_event.hpp>
#include <gyre/http/status.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/testing/io_in_virtual_time.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace gyre::testing {

/// A request in progress, made by http_client::start(). Movable. Each function runs the world's
/// loop until what it returns has come.
///
/// Thread-safety: the thread that runs the loop; not within tasks of the loop.
/// Lifetime: must not outlive its http_client. The destructor closes the connection unless the
/// response was read to its end; the server notices that when the loop runs again.
/// Errors: those of http::client and http::client_response; std::logic_error, as
/// io_in_virtual_time::run(), if nothing is left to do; and after leave().
class http_exchange {
 public:
  /// Called by http_client.
  http_exchange(io_in_virtual_time& world, join_handle<http::client_response> request) noexcept
      : world_(&world), request_(std::move(request)) {}

  /// Returns whether the head of the response has come, or the request has failed, at the present
  /// time. Runs what is ready.
  [[nodiscard]] bool has_response();
  /// Returns the response, whose body is streamed: read it by the functions below.
  http::client_response& response();
  http::status status() { return response().status(); }
  /// The value of the first field of the response with this name.
  std::optional<std::string_view> field(std::string_view name) { return response().field(name); }

  /// Returns the next bytes of the body; nothing at its end.
  std::optional<std::string> next_chunk();
  /// Returns the rest of the body.
  std::string read_body();
  /// Returns the next server-sent event, whose views are valid until the next call; nothing at the
  /// end of the stream.
  std::optional<http::server_sent_event> next_event();

  /// Closes the connection in the middle, as a client that goes away, and runs what is ready: the
  /// server requests the handler's stop, and ends streams. Idempotent.
  void leave();

 private:
  io_in_virtual_time* world_;
  join_handle<http::client_response> request_;  // empty after response() and leave()
  std::optional<http::client_response> response_;
  io::buffer unread_events_;  // the bytes of the stream of events after the last event
  http::server_sent_event_reader events_;
};

}  // namespace gyre::testing
