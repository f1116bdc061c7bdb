// SPDX-License-Identifier: Apache-2.0
// client_origin: a client's connections to one scheme, host and port, of HTTP/1.1 and HTTP/2.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/http/client_options.hpp>
#include <gyre/http/detail/client_connection.hpp>
#include <gyre/http/detail/client_stream.hpp>
#include <gyre/http/detail/http2_client_connection.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/single_flight.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

namespace gyre::http::detail {

/// The pool of connections, and those of them that speak HTTP/2. docs/design/http2.md explains how
/// requests are distributed.
///
/// Thread-safety: the loop's thread.
/// Lifetime: shared by its client and running calls of acquire().
class client_origin final : public std::enable_shared_from_this<client_origin>,
                            private http2_client_connection::owner {
 public:
  using pool = net::connection_pool<client_connection>;
  /// Makes a connection, and offers HTTP/2 if the argument says so.
  using connect_function = std::function<task<std::unique_ptr<client_connection>>(bool)>;

  /// The version of HTTP on new connections.
  enum class version : std::uint8_t {
    unknown,     ///< until the first handshake
    http1,       ///< as the last handshake has chosen
    http2,       ///< as the last handshake has chosen
    http1_only,  ///< HTTP/2 is not offered
  };

  client_origin(event_loop& loop, const client_options& options, version initial_version,
                connect_function connect);
  client_origin(const client_origin&) = delete;
  client_origin& operator=(const client_origin&) = delete;
  ~client_origin();

  /// Returns a stream for one request; with `needs_new`, not one on an idle connection of HTTP/1.1.
  static task<client_stream_pointer> acquire(std::shared_ptr<client_origin> self, bool needs_new);
  /// Returns a stream for a WebSocket (RFC 8441) on an open connection, or null. WebSockets that
  /// are opened so leave one of connections_per_host to requests, because a connection that carries
  /// one stays, even if it is too old for requests.
  client_stream_pointer try_open_websocket();
  /// Called when the server wants HTTP/1.1: no further request uses HTTP/2.
  void require_http1() noexcept;

  void close() noexcept;
  /// Whether no connection is open.
  bool is_unused() const noexcept { return pool_.metrics().open == 0; }
  std::size_t open() const noexcept { return pool_.metrics().open; }
  std::size_t idle() const noexcept;
  std::size_t http2_connections() const noexcept { return connections_.size(); }

 private:
  // A waiter is a request that waits for a stream.
  class waiter : public intrusive_list_node {
   public:
    explicit waiter(client_origin& origin);
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;
    ~waiter();

    manual_reset_event change_event;
    client_stream_pointer stream;  // set by the origin when it is the waiter's turn

   private:
    client_origin& origin_;
  };
  using connection_pointer = std::shared_ptr<http2_client_connection>;

  bool speaks_http1() const noexcept {
    return version_ == version::http1 || version_ == version::http1_only;
  }
  task<client_stream_pointer> acquire_http1(bool needs_new);
  task<client_stream_pointer> wait_for_stream(bool needs_new);
  static task<> add_connection(std::shared_ptr<client_origin> self, bool needs_new);
  void adopt(client_lease lease);
  client_stream_pointer try_open();
  bool has_connection() const noexcept;
  bool may_add_connection() const;
  void give_to_oldest(client_stream_pointer stream) noexcept;
  void wake_all() noexcept;

  // The functions of http2_client_connection::owner.
  void on_room() noexcept override;
  void on_ended() noexcept override;
  void on_closed(http2_client_connection& connection) noexcept override;

  event_loop& loop_;
  const client_options& options_;
  version version_;
  pool pool_;
  std::vector<connection_pointer> connections_;  // the connections of HTTP/2
  intrusive_list<waiter> waiters_;               // the waiting requests, the oldest first
  std::size_t waiter_count_ = 0;
  single_flight<std::monostate> additions_;
  // The earliest time at which a further connection is added to others.
  steady_time next_addition_ = steady_time::min();
  inplace_stop_source close_source_;
  bool is_closed_ = false;
};

}  // namespace gyre::http::detail
