// SPDX-License-Identifier: Apache-2.0
// client: messages over a NATS server, or a cluster of them, for the coroutines of a loop.
//
//     gyre::nats::client bus(loop, server);  // such as "nats://localhost:4222"
//
//     co_await bus.publish("orders.new", "{\"item\": 7}");
//     gyre::nats::subscription orders = bus.subscribe("orders.*");
//     while (auto order = co_await orders.next()) handle(*order);
//
//     gyre::nats::message reply = co_await bus.request("time", {}, {.timeout = 1min});
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/engines/nats/client_options.hpp>
#include <gyre/engines/nats/error.hpp>
#include <gyre/engines/nats/headers.hpp>
#include <gyre/engines/nats/message.hpp>
#include <gyre/engines/nats/notice.hpp>
#include <gyre/engines/nats/payload_view.hpp>
#include <gyre/engines/nats/publish_options.hpp>
#include <gyre/engines/nats/server_info.hpp>
#include <gyre/engines/nats/subscription.hpp>
#include <gyre/engines/nats/subscription_options.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::nats {

namespace detail {
class client_core;
}  // namespace detail

/// Publishes, subscribes and requests over one connection, which all coroutines of a loop share,
/// and which is replaced when it breaks. Messages of one turn of the loop leave with one send.
///
/// Connecting: the first call connects; calls wait meanwhile, except subscribe(). After
/// `max_connect_attempts` failures in a row, over all servers, the calls that wait fail, and the
/// next call tries again. Once it was connected, the client reconnects until close(): to any server
/// of the cluster that the servers have announced, and subscribes again. When every server has
/// refused the user in turn, the client gives up: calls that wait and all subscriptions fail with
/// errc::authorization_violation, and a later call tries again.
///
/// Delivery: at most once, as NATS has it. A message that was published shortly before a connection
/// breaks may be lost; after flush() the server has it. While the client reconnects, messages are
/// kept for the next connection, up to `keep_limit`. A request whose connection breaks fails with
/// errc::connection_lost, and may have been carried out.
///
/// Thread-safety: the loop's thread; while no thread runs the loop, one thread at a time. Make a
/// client for each loop. Coroutines notice another thread; subscribe() and try_publish() do not.
/// Lifetime: the loop must outlive the client. The destructor is close(); calls that it ends may
/// outlive the client. Subjects, payloads and headers of a call must outlive it.
/// Errors: of calls: std::system_error (nats::errc; errors of net::connect(), with the server's
/// name; io::errc::waiting_limit, closed, not_open, wrong_thread); gyre::operation_cancelled after
/// a stop. The constructor throws std::invalid_argument for options that make no sense, and
/// std::system_error for texts that name no server.
/// Complexity: a call is a coroutine frame; only a received message allocates besides.
class client {
 public:
  /// `server`: "nats://HOST:PORT", "tls://HOST:PORT", "HOST" or "HOST:PORT", also several with
  /// commas between them. A user, or a token, may stand before the host, with percent-encoding:
  /// "nats://USER:PASSWORD@HOST". The port is 4222 by default.
  template <std::convertible_to<std::string_view> Server>
  client(event_loop& loop, const Server& server, const client_options& options = {})
      : client(loop, std::vector<std::string>{std::string(std::string_view(server))}, options) {}
  client(event_loop& loop, const std::vector<std::string>& servers,
         const client_options& options = {});
  client(client&&) noexcept = default;
  client& operator=(client&& other) noexcept;
  ~client() { close(); }

  /// Connects, and waits until the login has succeeded. Other calls do so by themselves.
  [[nodiscard]] task<> connect();

  /// Publishes a message: copies it to the output. Waits for the first connection, and while much
  /// output waits.
  [[nodiscard]] task<> publish(std::string_view subject, payload_view payload,
                               publish_options options = {});
  /// Publishes as publish() does, but never waits. Returns false if publish() would wait; the
  /// client then connects, if need be.
  [[nodiscard]] bool try_publish(std::string_view subject, payload_view payload,
                                 const publish_options& options = {});
  /// Waits until the server has received all that was published before.
  [[nodiscard]] task<> flush();

  /// Subscribes to the messages of a subject, which may have wildcards: "orders.*.new", "orders.>".
  /// Does not wait; messages that another client publishes after flush() are received for sure.
  ///
  /// Errors: std::system_error (errc::bad_subject, draining; io::errc::not_open);
  /// std::invalid_argument for options that make no sense.
  [[nodiscard]] subscription subscribe(std::string subject, subscription_options options = {});

  /// Publishes a request, and waits for the first reply. All requests share one subscription.
  ///
  /// Errors: errc::no_responders, at once, if no subscription gets the subject;
  /// errc::request_timeout; errc::permission_denied. A call that is stopped, or destroyed, waits no
  /// more; its reply is dropped.
  [[nodiscard]] task<message> request(std::string_view subject, payload_view payload,
                                      request_options options = {});
  /// Returns a new, unique subject for replies: to subscribe(), and to publish() as
  /// publish_options::reply, for several replies to one request.
  [[nodiscard]] std::string new_inbox();

  /// Ends in good order: drains all subscriptions, waits until next() has given their messages and
  /// then nothing, or they were destroyed, sends the output, and closes. It waits for subscriptions
  /// that have ended before, too. Meanwhile publish() and request() work, and subscribe() throws
  /// errc::draining; a further drain() waits for the end of the first, and has its errors.
  ///
  /// Errors: time_limit_errc::expired after client_options::drain_timeout; io::errc::closed after
  /// close(). The client is closed after each error, and if the first call is stopped or destroyed.
  [[nodiscard]] task<> drain();
  /// Ends running and waiting calls with io::errc::closed, ends subscriptions, and closes the
  /// connection after its output. Idempotent.
  void close() noexcept;

  /// Calls `handler(notice, text)` on the loop, for events that no call reports. It may do
  /// anything, even replace itself or destroy the client; its exceptions end the connection.
  client& on_notice(move_only_function<void(notice, std::string_view)> handler);
  [[nodiscard]] bool is_connected() const noexcept;
  /// The server of the present connection, or of the last one.
  [[nodiscard]] server_info server() const;
  [[nodiscard]] client_metrics metrics() const noexcept;

  /// For gyre's own use: keeps the connection, also when this object is moved or destroyed.
  const std::shared_ptr<detail::client_core>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<detail::client_core> core_;
};

}  // namespace gyre::nats
