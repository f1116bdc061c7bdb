// SPDX-License-Identifier: Apache-2.0
// connection_pool: open connections to one server, which coroutines take in turn.
//
//     gyre::net::connection_pool pool(loop, server, {.max_open = 8});  // such as "localhost:7000"
//
//     auto connection = co_await pool.acquire();
//     co_await connection->write_all("hello\n");
//     auto reply = co_await connection->receive();
//     connection.give_back();  // else it is closed: after an exception its state is unknown
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/detail/connector.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/started_task.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/task.hpp>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre::net {

/// Options of a connection_pool.
struct connection_pool_options {
  /// The maximum number of open connections, idle ones included; at least 1. Further callers of
  /// acquire() wait.
  std::size_t max_open = 16;
  /// The maximum number of idle connections. A connection that is given back above this number is
  /// closed, unless a caller waits.
  std::size_t max_idle = std::numeric_limits<std::size_t>::max();
  /// The maximum number of waiting callers. A further caller fails at once with
  /// io::errc::waiting_limit.
  std::size_t max_waiting = std::numeric_limits<std::size_t>::max();
  /// An idle connection is closed after this time. It should be less than the limit of the server.
  duration idle_timeout = std::chrono::minutes{1};
  /// A connection is not used again once it is this old, so that a pool follows changes of the
  /// server's addresses.
  duration max_lifetime = std::chrono::minutes{30};
  /// The time limit of making a connection: lookup, all attempts, and the handshake.
  duration connect_timeout = std::chrono::seconds{5};
  /// Options of the connections that the pool itself makes.
  race_options connecting = {};
};
static_assert(std::is_trivially_destructible_v<connection_pool_options>);

/// Counters of a connection_pool: of the present, and since the construction of the pool.
struct connection_pool_metrics {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  std::size_t open = 0;     ///< connections, idle or taken
  std::size_t idle = 0;     ///< connections that wait for use
  std::size_t waiting = 0;  ///< callers that wait until a connection may be taken or made
  std::uint64_t created = 0;
  std::uint64_t reused = 0;     ///< takes of an idle connection
  std::uint64_t discarded = 0;  ///< closed: not given back, too old, or of no more use
  std::uint64_t failed = 0;     ///< connects that failed
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const connection_pool_metrics& counts);

template <class Connection>
class pooled_connection;
template <class Connection>
class connection_pool;

namespace detail {

/// Whether a caller of a pool may get an idle connection.
enum class idle_use : bool { allowed, refused };

/// Acquires a new connection, for a request that failed on a reused one. The new connection
/// replaces an idle one if `max_open` are open.
template <class Connection>
[[nodiscard]] task<pooled_connection<Connection>> acquire_new(connection_pool<Connection>& pool);

/// Throws std::invalid_argument for options that make no sense.
void check(const connection_pool_options& options);

/// The state of a pool, shared by the pool, its connections and its callers.
///
/// Thread-safety: none; belongs to the loop's thread.
template <class Connection>
class pool_core {
 public:
  using lease = pooled_connection<Connection>;
  using shared = std::shared_ptr<pool_core>;
  using pointer = std::unique_ptr<Connection>;
  // Reads ahead of the next use of an idle connection, to notice that the server closes it. The
  // destructor ends the wait.
  class idle_watch;
  struct entry {
    entry() noexcept = default;
    entry(pointer made_connection, steady_time last_use) noexcept
        : connection(std::move(made_connection)), end_of_life(last_use) {}
    entry(entry&&) noexcept = default;
    entry& operator=(entry&& other) noexcept {
      watch.reset();  // the watch must end before the connection that it watches
      connection = std::move(other.connection);
      end_of_life = other.end_of_life;
      expiry = other.expiry;
      watch_time = other.watch_time;
      watch = std::move(other.watch);
      return *this;
    }

    pointer connection;
    steady_time end_of_life{};
    steady_time expiry{};               // the time at which an idle connection is closed
    steady_time watch_time{};           // the time from which an idle connection is watched
    std::unique_ptr<idle_watch> watch;  // last: the watch must end before the connection
  };

  template <class... Source>
  explicit pool_core(event_loop& loop, const connection_pool_options& options, Source&&... source)
      : options_(options),
        permits_(options.max_open),
        connector_(loop, std::forward<Source>(source)...),
        expiry_timer_(loop, [this] { close_expired(); }),
        watch_timer_(loop, [this] { watch_idle(); }) {}
  pool_core& operator=(pool_core&&) = delete;

  static task<lease> acquire(shared self, idle_use use) {
    const task_context& context = co_await gyre::detail::this_context();
    if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
    if (self == nullptr) throw_moved_from(name);
    require_loop(self->loop(), context, name);
    if (self->is_closed_) self->connector_.fail(io::errc::not_open, name);
    semaphore_permit permit;
    if (self->permits_.try_acquire()) {
      permit = semaphore_permit(self->permits_, 1);
      std::optional<entry> idle_entry = self->take_idle(use);
      if (idle_entry) co_return lease(self, std::move(permit), std::move(*idle_entry), true);
    }
    auto wait = as_result(
        stop_when(wait_and_connect(self, std::move(permit), use), self->close_source_.get_token()));
    auto admission = co_await std::move(wait);
    if (admission) co_return std::move(*admission);
    std::exception_ptr error = std::move(admission).error();
    if (self->is_closed_)
      error = error_of_closed(std::move(error), self->connector_.describe(name));
    co_await gyre::detail::fail_with(error);
    std::unreachable();
  }

  /// Keeps a connection for the next caller if the connection can be used again.
  void give_back(entry idle_entry, duration idle_limit) noexcept {
    const steady_time now = loop().now();
    // Connections for waiting callers are kept in addition to max_idle.
    const bool has_room = idle_entries_.size() < waiter_count_ ||
                          idle_entries_.size() - waiter_count_ < options_.max_idle;
    const bool is_kept =
        !is_closed_ && has_room && now < idle_entry.end_of_life && idle_limit > duration::zero();
    if (!is_kept) return discard(std::move(idle_entry));
    idle_entry.expiry =
        std::min(gyre::detail::later(now, std::min(idle_limit, options_.idle_timeout)),
                 idle_entry.end_of_life);
    try {
      idle_entries_.push_back(std::move(idle_entry));
    } catch (const std::bad_alloc&) {
      return discard(std::move(idle_entry));
    }
    if constexpr (waits_for_input<Connection>) {
      idle_entries_.back().watch_time = gyre::detail::later(now, watch_delay);
      if (!watch_timer_.active()) watch_timer_.start_at(idle_entries_.back().watch_time);
    }
    const steady_time expiry = idle_entries_.back().expiry;
    if (!expiry_timer_.active() || expiry < expiry_timer_.deadline()) {
      expiry_timer_.start_at(expiry);
    }
  }
  void discard(entry dropped_entry) noexcept {
    ++metrics_.discarded;
    dropped_entry.watch.reset();
    dropped_entry.connection.reset();
  }

  void close() noexcept {
    if (std::exchange(is_closed_, true)) return;
    expiry_timer_.cancel();
    watch_timer_.cancel();
    metrics_.discarded += idle_entries_.size();
    idle_entries_.clear();
    close_source_.request_stop();
  }
  static task<> stop(shared self) {
    const task_context& context = co_await gyre::detail::this_context();
    if (self == nullptr) co_return;
    require_loop(self->loop(), context, name);
    self->close();
    const semaphore_permit all = co_await self->permits_.permit(self->options_.max_open);
  }

  connection_pool_metrics metrics() const noexcept {
    connection_pool_metrics now = metrics_;
    now.open = static_cast<std::size_t>(now.created - now.discarded);
    now.idle = idle_entries_.size();
    now.waiting = waiter_count_;
    return now;
  }

 private:
  static constexpr const char* name = "gyre::net::connection_pool";
  // A connection is watched only after this idle time, so that a pool in use starts no watches.
  static constexpr std::chrono::milliseconds watch_delay{50};

  // The state of a caller that waits for a permit.
  class waiter {
   public:
    explicit waiter(pool_core& pool) : pool_(pool) {
      if (pool.waiter_count_ >= pool.options_.max_waiting) {
        pool.connector_.fail(io::errc::waiting_limit, name);
      }
      ++pool.waiter_count_;
    }
    waiter& operator=(waiter&&) = delete;
    ~waiter() {
      --pool_.waiter_count_;
      // A caller that was stopped leaves a connection that was kept only for it.
      if (pool_.has_surplus()) pool_.discard_oldest();
    }

   private:
    pool_core& pool_;
  };

  event_loop& loop() const noexcept { return connector_.loop(); }

  static task<lease> wait_and_connect(shared self, semaphore_permit caller_permit, idle_use use) {
    semaphore_permit permit = std::move(caller_permit);
    if (permit.count() == 0) {
      const waiter own_wait(*self);
      permit = co_await self->permits_.permit();
      std::optional<entry> idle_entry = self->take_idle(use);
      if (idle_entry) co_return lease(self, std::move(permit), std::move(*idle_entry), true);
    }
    auto connect_task = as_result(self->connector_.connect(self->options_.connect_timeout));
    auto connection = co_await std::move(connect_task);
    if (!connection) {
      ++self->metrics_.failed;
      std::rethrow_exception(connection.error());
    }
    ++self->metrics_.created;
    entry new_entry(std::move(*connection),
                    gyre::detail::later(self->loop().now(), self->options_.max_lifetime));
    co_return lease(self, std::move(permit), std::move(new_entry), false);
  }

  // Takes the usable idle connection that was used last; closes unusable ones. If the use is
  // refused, closes the oldest idle connection instead, to make room for a new one.
  std::optional<entry> take_idle(idle_use use) noexcept {
    if (use == idle_use::refused) {
      if (!idle_entries_.empty()) discard_oldest();
      return std::nullopt;
    }
    const steady_time now = loop().now();
    while (!idle_entries_.empty()) {
      entry last = std::move(idle_entries_.back());
      idle_entries_.pop_back();
      last.watch.reset();
      if (now < last.expiry && is_reusable(*last.connection)) {
        ++metrics_.reused;
        return last;
      }
      discard(std::move(last));
    }
    return std::nullopt;
  }
  bool has_surplus() const noexcept {
    return idle_entries_.size() > waiter_count_ &&
           idle_entries_.size() - waiter_count_ > options_.max_idle;
  }
  void discard_oldest() noexcept {
    entry oldest_entry = std::move(idle_entries_.front());
    idle_entries_.erase(idle_entries_.begin());
    discard(std::move(oldest_entry));
  }
  void close_expired() {
    const steady_time now = loop().now();
    metrics_.discarded +=
        std::erase_if(idle_entries_, [now](entry& idle_entry) { return idle_entry.expiry <= now; });
    if (!idle_entries_.empty()) {
      expiry_timer_.start_at(std::ranges::min_element(idle_entries_, {}, &entry::expiry)->expiry);
    }
  }

  // Watches the connections that are idle for long enough.
  void watch_idle() {
    const steady_time now = loop().now();
    steady_time next_expiry = steady_time::max();
    for (std::size_t i = 0; i < idle_entries_.size();) {
      entry& idle_entry = idle_entries_[i];
      const std::size_t count = idle_entries_.size();
      if (idle_entry.watch == nullptr && idle_entry.watch_time > now)
        next_expiry = std::min(next_expiry, idle_entry.watch_time);
      if (idle_entry.watch == nullptr && idle_entry.watch_time <= now) begin_watch(idle_entry);
      if (idle_entries_.size() == count)
        ++i;  // otherwise the watch has ended, and removed its entry
    }
    if (next_expiry != steady_time::max()) watch_timer_.start_at(next_expiry);
  }
  void begin_watch(entry& idle_entry) {
    if constexpr (waits_for_input<Connection>) {
      idle_entry.watch = std::make_unique<idle_watch>(*this, *idle_entry.connection);
      idle_entry.watch->start();
    }
  }
  void discard_idle(std::size_t index) noexcept {
    entry dropped_entry = std::move(idle_entries_[index]);
    idle_entries_.erase(idle_entries_.begin() + static_cast<std::ptrdiff_t>(index));
    discard(std::move(dropped_entry));
  }
  // Called when an idle connection can be read, or waiting for it has failed: the server has closed
  // it, or has sent something, which may be a message of the transport.
  void on_idle_input(const idle_watch& ended_watch) noexcept {
    const auto match = std::ranges::find(idle_entries_, &ended_watch, [](const entry& idle_entry) {
      return idle_entry.watch.get();
    });
    if (match == idle_entries_.end()) return;
    match->watch.reset();
    if (!is_reusable(*match->connection)) {
      return discard_idle(static_cast<std::size_t>(match - idle_entries_.begin()));
    }
    // The pause keeps a connection that is always readable from occupying the loop.
    match->watch_time = gyre::detail::later(loop().now(), watch_delay);
    if (!watch_timer_.active()) watch_timer_.start_at(match->watch_time);
  }

  const connection_pool_options options_;
  semaphore permits_;  // the permits of connections that are taken or being made
  connector<Connection> connector_;
  std::vector<entry> idle_entries_;  // ordered by return, the newest last
  timer expiry_timer_;
  timer watch_timer_;
  inplace_stop_source close_source_;
  bool is_closed_ = false;
  std::size_t waiter_count_ = 0;
  connection_pool_metrics metrics_;
};

template <class Connection>
class pool_core<Connection>::idle_watch final : gyre::detail::started_task<idle_watch> {
  using base = gyre::detail::started_task<idle_watch>;

 public:
  idle_watch(pool_core& pool, Connection& connection)
      : base(pool.loop(), wait_for_input(connection)), pool_(pool) {}
  ~idle_watch() = default;
  using base::start;

 private:
  friend base;
  void on_work_ended() noexcept { pool_.on_idle_input(*this); }

  pool_core& pool_;
};

}  // namespace detail

/// A connection that a coroutine has taken from a connection_pool; as a pointer to it. Destroyed,
/// it closes the connection, because after an exception a reply may still be under way; one that
/// was never dereferenced returns to the pool.
///
/// Thread-safety: the loop's thread.
/// Lifetime: may outlive the pool (give_back() then closes the connection), but not the loop.
template <class Connection>
class [[nodiscard]] pooled_connection {
 public:
  /// Constructs an object that holds no connection.
  pooled_connection() noexcept = default;
  pooled_connection(pooled_connection&& other) noexcept
      : pool_(std::move(other.pool_)),
        permit_(std::move(other.permit_)),
        entry_(std::move(other.entry_)),
        was_reused_(other.was_reused_),
        was_used_(other.was_used_) {}
  pooled_connection& operator=(pooled_connection&& other) noexcept {
    pooled_connection source(std::move(other));
    std::swap(pool_, source.pool_);
    std::swap(permit_, source.permit_);
    std::swap(entry_, source.entry_);
    std::swap(was_reused_, source.was_reused_);
    std::swap(was_used_, source.was_used_);
    return *this;
  }
  ~pooled_connection() {
    if (!was_used_) give_back();
    if (has_connection()) pool_->discard(std::move(entry_));
  }

  Connection& operator*() noexcept {
    assert(has_connection() && "a pooled_connection was used after it had been given back");
    was_used_ = true;
    return *entry_.connection;
  }
  Connection* operator->() noexcept { return &**this; }
  /// Whether the object holds a connection: false once the connection was given back, detached or
  /// moved.
  [[nodiscard]] bool has_connection() const noexcept { return entry_.connection != nullptr; }
  /// Whether another caller had the connection before. The server may just have closed a reused
  /// connection, so a request that failed on it is worth another attempt, if the request may be
  /// repeated.
  [[nodiscard]] bool is_reused() const noexcept { return was_reused_; }

  /// Lets the next caller of acquire() have the connection. Its peer must have answered everything:
  /// unexpected bytes close the connection. Idempotent.
  void give_back() noexcept { give_back(duration::max()); }
  /// Does what give_back() does, for a connection that its peer closes when it has been idle for
  /// longer than `idle_limit`: the pool closes it after the shorter of `idle_limit` and
  /// connection_pool_options::idle_timeout, and at once if `idle_limit` is zero or less.
  void give_back(duration idle_limit) noexcept {
    if (!has_connection()) return;
    pool_->give_back(std::move(entry_), idle_limit);
    permit_.release();
  }
  /// Takes the connection out of the pool, which may open another one in its place.
  [[nodiscard]] std::unique_ptr<Connection> detach() noexcept {
    std::unique_ptr<Connection> connection = std::move(entry_.connection);
    if (connection != nullptr) pool_->discard({});
    permit_.release();
    return connection;
  }

 private:
  friend detail::pool_core<Connection>;
  using core = detail::pool_core<Connection>;

  pooled_connection(std::shared_ptr<core> pool, semaphore_permit permit, typename core::entry entry,
                    bool was_reused) noexcept
      : pool_(std::move(pool)),
        permit_(std::move(permit)),
        entry_(std::move(entry)),
        was_reused_(was_reused) {}

  std::shared_ptr<core> pool_;
  semaphore_permit permit_;  // last: the permit is released after the connection is closed
  typename core::entry entry_;
  bool was_reused_ = false;
  bool was_used_ = false;
};

/// Connections to one server, at most `max_open`, which are kept open between their uses. acquire()
/// gives the idle connection that was used last, so that surplus ones grow idle and are closed; if
/// none is idle, it connects. Callers beyond `max_open` wait, first come, first served.
///
/// The pool checks an idle connection before it gives it out: a connection that its server has
/// closed, or on which it has sent unexpected bytes, is closed and replaced. A server can still
/// close a connection later: see pooled_connection::is_reused(). A connection that is idle for
/// 50 ms is watched, so that the pool closes its side soon after the server: a server that stops
/// need not wait for it.
///
/// A Connection is an io::stream, a tls_stream, a framed, or a class with a function `bool
/// is_reusable() const`, and may come in a std::unique_ptr. Connections of a class are watched if
/// it has a function wait_readable(), whose awaited result ends when something can be read; the
/// coroutine that awaits it is destroyed when the connection is taken. The pool connects
/// (tcp_stream); or a `handshake` makes it of a tcp_stream, such as a framed stream that is logged
/// in; or a function connects.
///
/// Thread-safety: the loop's thread; while none runs the loop, one thread at a time. For several
/// loops have a pool on each: `sharded<connection_pool<>> pools(loops)`, and
/// pools.start("localhost:7000"s).
/// Lifetime: the loop must outlive the pool and its connections. The destructor is close(); waiting
/// callers and taken connections may outlive the pool. After a move, acquire() of the source fails
/// with io::errc::not_open.
/// Errors: the constructors throw std::invalid_argument for options that make no sense and for
/// "unix:PATH", and the exceptions of host_port.
/// Complexity: to take an idle connection costs a coroutine frame and one system call; to wait or
/// connect, four frames more. All idle connections together have one timer.
template <class Connection = tcp_stream>
class connection_pool {
  using core = detail::pool_core<Connection>;

 public:
  using connection_type = Connection;

  /// Makes a pool of streams to `server`: an endpoint, or a text that host_port reads.
  template <std::convertible_to<host_port> Server>
    requires std::same_as<Connection, tcp_stream>
  connection_pool(event_loop& loop, const Server& server, connection_pool_options options = {})
      : connection_pool(loop, host_port(server), detail::no_handshake(), options) {}
  /// Makes a pool whose connections are the results of `handshake(tcp_stream)`, an awaitable. If
  /// the handshake fails, acquire() fails with its error.
  template <std::convertible_to<host_port> Server, detail::handshake_function Handshake>
    requires std::same_as<detail::connection_from<Handshake, tcp_stream>, Connection>
  connection_pool(event_loop& loop, const Server& server, Handshake handshake,
                  connection_pool_options options = {})
      : core_(make_core(loop, options, host_port(server), std::move(handshake),
                        options.connecting)) {}
  /// Makes a pool of connections that `connect()`, an awaitable, makes: to a Unix socket, or
  /// through a proxy.
  template <detail::connect_function Connect>
    requires std::same_as<detail::connection_from<Connect>, Connection>
  connection_pool(event_loop& loop, Connect connect, connection_pool_options options = {})
      : core_(make_core(loop, options, std::move(connect))) {}
  connection_pool(connection_pool&&) noexcept = default;
  connection_pool& operator=(connection_pool&& other) noexcept {
    connection_pool replacement(std::move(other));
    std::swap(core_, replacement.core_);
    return *this;
  }
  ~connection_pool() {
    if (core_ != nullptr) core_->close();
  }

  /// Awaited, gives an idle connection, or a new one; waits while `max_open` are taken. To limit
  /// the wait: `with_timeout(pool.acquire(), 2s)`. A caller that is stopped takes nothing.
  ///
  /// Errors: of connecting (see connect()) and the handshake; io::errc::connect_timeout,
  /// waiting_limit; closed by close() meanwhile, not_open after it; wrong_thread; std::logic_error
  /// if a function gave a null pointer. A failed connect is not repeated: see retry().
  [[nodiscard]] task<pooled_connection<Connection>> acquire() {
    return core::acquire(core_, detail::idle_use::allowed);
  }

  /// Closes idle connections, ends waits of acquire(), and closes taken connections when they are
  /// given back. Idempotent.
  void close() noexcept {
    if (core_ != nullptr) core_->close();
  }
  /// Awaited, is close(), and waits until all taken connections have been given back or closed. A
  /// coroutine that holds one must not await it: it would wait for itself for ever.
  [[nodiscard]] task<> stop() { return core::stop(core_); }

  [[nodiscard]] connection_pool_metrics metrics() const noexcept {
    return core_ != nullptr ? core_->metrics() : connection_pool_metrics();
  }

 private:
  friend task<pooled_connection<Connection>> detail::acquire_new<>(connection_pool& pool);

  template <class... Source>
  static std::shared_ptr<core> make_core(event_loop& loop, const connection_pool_options& options,
                                         Source&&... source) {
    detail::check(options);
    return std::make_shared<core>(loop, options, std::forward<Source>(source)...);
  }

  std::shared_ptr<core> core_;
};

template <class Connection>
task<pooled_connection<Connection>> detail::acquire_new(connection_pool<Connection>& pool) {
  return pool_core<Connection>::acquire(pool.core_, idle_use::refused);
}

template <std::convertible_to<host_port> Server>
connection_pool(event_loop&, const Server&, connection_pool_options = {})
    -> connection_pool<tcp_stream>;
template <std::convertible_to<host_port> Server, detail::handshake_function Handshake>
connection_pool(event_loop&, const Server&, Handshake, connection_pool_options = {})
    -> connection_pool<detail::connection_from<Handshake, tcp_stream>>;
template <detail::connect_function Connect>
connection_pool(event_loop&, Connect, connection_pool_options = {})
    -> connection_pool<detail::connection_from<Connect>>;

}  // namespace gyre::net
