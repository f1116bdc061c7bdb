// SPDX-License-Identifier: Apache-2.0
// server_core: the state that a server's loops share; server_shard: the part on one loop.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/message_limit.hpp>
#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/exec/detail/posted_flush.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/http/date.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/head_scanner.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/host_list.hpp>
#include <gyre/http/detail/route_counters.hpp>
#include <gyre/http/handler.hpp>
#include <gyre/http/route_metrics.hpp>
#include <gyre/http/router.hpp>
#include <gyre/http/server_options.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/trace/label.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::http {

struct access_record;

namespace detail {

class exchange;
class server_core;
class turn_budget;

/// The middleware of a server, or of a group of its routes.
struct route_scope {
  const route_scope* parent;  // null for the whole server
  std::string prefix;         // includes the prefix of `parent`
  std::vector<middleware> own = {};
  std::vector<middleware*> middlewares = {};  // those of all enclosing scopes come first
};

/// A handler, with the options and the pattern of its route.
struct server_route {
  handler serve;
  route_options options = {};
  std::string pattern = "(no route)";
  const route_scope* scope = nullptr;
  std::string method_text = "any";   ///< the methods that the route was added for
  std::size_t index = 0;             ///< the place of the route's counters, if routes are counted
  trace::label name = "(no route)";  ///< the route in the flight recorder
};

/// The route of a request, and the middleware around its handler.
struct chosen_route {
  server_route* route;
  std::span<middleware* const> middlewares;
};

/// The part of a server on one loop, which the server's connections on that loop share.
///
/// Thread-safety: the loop's thread, except for the counters.
class server_shard {
 public:
  server_shard(server_core& core, event_loop& loop);
  server_shard(const server_shard&) = delete;
  server_shard& operator=(const server_shard&) = delete;
  ~server_shard();

  server_core& core() const noexcept { return core_; }
  event_loop& loop() const noexcept { return loop_; }

  /// The bytes of `output_owner` that are not sent yet: responses, and short parts of streamed
  /// ones. One connection uses the buffer at a time.
  io::buffer output{{.prepend = 0}};
  connection_protocol* output_owner = nullptr;
  gyre::detail::posted_flush posted_flush;
  /// Output above this size is sent at once instead of at the end of the turn.
  static constexpr std::size_t max_output = std::size_t{64} << 10;
  /// Returns the buffer for the output of `owner`, after that of another connection was sent.
  io::buffer& output_of(connection_protocol& owner) {
    if (output_owner != &owner) take_output(owner);
    return output;
  }
  /// Sends the output after the tasks that are ready now, which may add to it. Returns false if
  /// there is no memory for the task.
  bool schedule_flush() noexcept;
  /// Drops the bytes, and memory that is much larger than usual.
  void drop_output() noexcept {
    if (output.capacity() > 4 * max_output) {
      output = io::buffer({.prepend = 0});
    } else {
      output.clear();
    }
  }

  /// Requested when the server's stop begins.
  inplace_stop_source stopping;

  /// Returns an exchange that no request uses, or a new one. Throws std::bad_alloc.
  exchange& acquire();
  /// Keeps an exchange for another request, or destroys it.
  void release(exchange& idle_exchange) noexcept;

  /// The time at which the current turn of a connection began, stored because reading the clock
  /// costs more.
  steady_time turn_begun{};

  const std::unique_ptr<turn_budget> budget;

  /// The fields of a response of HTTP/2 while it is sent.
  header_block http2_head;

  /// Returns "Date: …\r\n" for `time`, formatted at most once per second.
  std::string_view date_line(steady_time time);

  /// The size of an id that make_id() makes.
  static constexpr std::size_t id_size = 32;
  /// Writes an id that no other request of any server has.
  void make_id(std::span<char, id_size> id) noexcept;

  /// The counters of each route, if routes are counted; the last are those of requests without a
  /// route.
  std::vector<route_counters> routes;

  struct counters {
    gyre::detail::relaxed_counter requests, malformed, timeouts;
    gyre::detail::relaxed_counter http2_connections, refused_streams, stalled_streams, floods;
    // The number of responses by class of status.
    std::array<gyre::detail::relaxed_counter, 6> by_class;
  } counts;

 private:
  static constexpr std::size_t max_idle_exchanges = 64;

  friend class shard_pointer;

  void take_output(connection_protocol& owner) noexcept;

  server_core& core_;
  event_loop& loop_;
  std::shared_ptr<server_core> kept_core_;  // while there is a shard_pointer
  std::size_t pointers_ = 0;                // shard_pointers to this shard
  std::vector<std::unique_ptr<exchange>> idle_exchanges_;
  steady_time date_expires_ = steady_time::min();
  std::array<char, 8 + date_size> date_line_{};
  // An id consists of the shard's number, which is random, and the next number of a sequence that
  // repeats none.
  gyre::detail::splitmix64 id_sequence_{gyre::detail::random_seed()};
  const std::uint64_t shard_number_ = gyre::detail::splitmix64(gyre::detail::random_seed())();
};

/// Keeps the core of a shard, and so the shard itself. One pointer, because each idle WebSocket has
/// one.
///
/// Thread-safety: the loop's thread.
class shard_pointer {
 public:
  explicit shard_pointer(server_shard& shard);
  shard_pointer(const shard_pointer&) = delete;
  shard_pointer& operator=(const shard_pointer&) = delete;
  ~shard_pointer();

  server_shard& operator*() const noexcept { return shard_; }
  server_shard* operator->() const noexcept { return &shard_; }

 private:
  server_shard& shard_;
};

/// The state that all loops share.
///
/// Lifetime: shared by the server, its connections, and exchanges whose connection has ended.
class server_core : public std::enable_shared_from_this<server_core> {
 public:
  server_core(std::vector<event_loop*> loops, server_options settings);

  // http::route_group documents these functions.
  route_scope& root_scope() noexcept { return *scopes_.front(); }
  route_scope& add_scope(const route_scope& parent, std::string_view prefix);
  void add(route_scope& scope, middleware middleware);
  void add(const route_scope& scope, method_set methods, std::string_view pattern, handler function,
           route_options route);
  void start();
  // http::server documents stop().
  void stop(duration timeout, move_only_function<void()> callback);
  /// Makes the time limit of a stop that has begun expire. May be called from any thread, even if
  /// the server is being destroyed.
  void expire_stop() noexcept;
  /// Called by the destructor of the server: closes all connections. Handlers may still run, but
  /// the callbacks of stop() are not called any more.
  void disconnect() noexcept;
  server_shard& shard_of(const event_loop& loop) noexcept;
  /// Whether the server may answer a request for `authority` on `connection`.
  bool serves_host(std::string_view authority, const net::tcp_connection& connection) const;
  /// Returns the route of requests for other hosts, which get 421.
  server_route& misdirected() noexcept { return misdirected_; }
  /// Returns the route of a request: one that was added, or one of the server for 404, 405 or
  /// OPTIONS.
  chosen_route find(const request& request,
                    route_match<std::unique_ptr<server_route>>& match) noexcept;
  std::vector<http::route_metrics> route_metrics() const;
  /// Reports an error of a handler, by `error_handler` or on stderr.
  void report_error(const request& request, const std::exception_ptr& error) noexcept;
  /// Reports an error of a handler on stderr. `path`: of the request, or the pattern of its route.
  void print_error(std::string_view method, std::string_view path, steady_time now,
                   const std::exception_ptr& error) noexcept;

  /// Counts a request in progress, or another activity that a stop waits for.
  void begin_work() noexcept { work_.fetch_add(1, std::memory_order_relaxed); }
  void end_work() noexcept;
  /// Whether connections of HTTP/2 must hold less, or take nothing more: see
  /// http2_options::server_memory.
  bool is_short_of_http2_memory() const noexcept {
    return http2_memory.load(std::memory_order_relaxed) > options.http2.server_memory / 4;
  }
  bool has_no_http2_memory() const noexcept {
    return http2_memory.load(std::memory_order_relaxed) > options.http2.server_memory / 4 * 3;
  }
  bool is_draining() const noexcept { return is_draining_.load(std::memory_order_relaxed); }
  std::size_t active() const noexcept { return work_.load(std::memory_order_relaxed); }

  const server_options options;
  const detail::head_limits head_limits;
  move_only_function<void(const request&, std::exception_ptr)> error_handler;
  move_only_function<void(const access_record&)> access_handler;
  std::vector<std::unique_ptr<server_shard>> shards;
  std::optional<net::tcp_server> tcp;  // disconnect() resets it
  /// Bytes that connections of HTTP/2 hold above their idle state, which their number bounds.
  gyre::detail::atomic<std::size_t> http2_memory{0};
  // The memory of all idle connections of HTTP/2.
  gyre::detail::atomic<std::size_t> idle_http2_memory{0};
  bool is_started = false;

 private:
  class activity;

  const route_scope& scope_of_refused(
      const request& request, route_match<std::unique_ptr<server_route>>& match) const noexcept;
  connection_protocol_pointer make_protocol(net::tcp_connection& connection, server_shard& shard);
  void on_tcp_stopped();
  void finish_stop();
  bool may_print_error(steady_time time);

  basic_router<std::unique_ptr<server_route>> routes_;
  method_set methods_;                                // the methods of all routes
  std::vector<std::unique_ptr<route_scope>> scopes_;  // parents come before their children
  basic_router<const route_scope*> scopes_by_path_;  // finds the scope of a request without a route
  std::vector<server_route*> added_routes_;
  server_route not_found_;
  server_route not_allowed_;
  server_route options_;
  server_route misdirected_;
  const host_list hosts_;
  gyre::detail::message_limit printed_errors_;
  gyre::detail::atomic<std::size_t> work_{0};
  gyre::detail::atomic<bool> is_draining_{false};
  std::mutex mutex_;  // guards the members below
  std::vector<move_only_function<void()>> done_callbacks_;
  bool is_tcp_stopped_ = false;
  bool is_stopped_ = false;
};

}  // namespace detail
}  // namespace gyre::http
