// SPDX-License-Identifier: Apache-2.0
// shared_connection: the connection of a reconnecting_client, which its calls share and replace.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/connector.hpp>
#include <gyre/net/reconnecting_client_options.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/sync/single_flight.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/retry.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::net::detail {

/// Checks `options`. Throws std::invalid_argument for options that make no sense.
void check(const reconnecting_client_options& options);

/// Computes the earliest time of the next attempt to connect from the failures in a row.
class attempt_schedule {
 public:
  explicit attempt_schedule(const reconnecting_client_options& options)
      : options_(options), generator_(options.seed ? *options.seed : gyre::detail::random_seed()) {}

  void note_failure(steady_time now) noexcept;
  void note_success() noexcept { failures_ = 0; }
  steady_time next_attempt() const noexcept { return next_attempt_; }

 private:
  const reconnecting_client_options& options_;
  gyre::detail::splitmix64 generator_;
  std::size_t failures_ = 0;  // how many attempts in a row have failed
  steady_time next_attempt_ = steady_time::min();
};

/// Returns `error`, that of the last of several failed attempts; with their number in the message
/// if `error` has a code.
std::exception_ptr error_of_attempts(std::exception_ptr error, std::size_t attempts,
                                     const std::string& client) noexcept;

/// A connection with tasks of its own, which ends by an awaited stop().
template <class Connection>
concept stops_asynchronously = requires(Connection& connection) {
  { connection.stop() } -> awaitable;
};

/// A callable for reconnecting_client::call(): takes a Connection& and returns an awaitable.
template <class F, class Connection>
concept use_function =
    std::invocable<F&, Connection&> && awaitable<std::invoke_result_t<F&, Connection&>>;

/// A parameter type that accepts only arguments that are not a use_function, to explain the
/// mistake.
template <class Connection>
class misused_use_function {
 public:
  GYRE_MISUSE_FAILS(misused_use_function);

  template <class F>
    requires(!use_function<std::decay_t<F>, Connection>)
  GYRE_MISUSE(
      "a call needs a function that takes a reference to the connection and returns an awaitable, "
      "as in [](auto& connection) { return ask(connection); }")
  misused_use_function(F&&) {}
};

/// The connection of a client, which its calls share, use in turns, and replace when it breaks.
///
/// Thread-safety: the loop's thread.
template <class Connection>
class shared_connection {
 public:
  using shared = std::shared_ptr<shared_connection>;
  template <class F>
  using result_of = task_result_t<std::invoke_result_t<F&, Connection&>>;

  template <class... Source>
  shared_connection(event_loop& loop, const reconnecting_client_options& options,
                    Source&&... source)
      : options_(options),
        schedule_(options_),
        permits_(options.concurrency),
        connector_(loop, std::forward<Source>(source)...),
        connect_flight_(loop) {}
  shared_connection& operator=(shared_connection&&) = delete;

  template <class F>
  static task<result_of<F>> call(shared self, F function, bool repeats) {
    const task_context& context = co_await gyre::detail::this_context();
    if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
    if (self == nullptr) throw_moved_from(name);
    const std::size_t uses = repeats ? self->options_.uses : 1;
    require_loop(self->loop(), context, name);
    if (self->is_closed_) self->connector_.fail(io::errc::not_open, name);
    const running_call own_call(*self);
    auto work =
        stop_when(use_repeatedly(self, std::move(function), uses), self->close_source_.get_token());
    co_await gyre::detail::await_ready_state(work);
    std::exception_ptr error = gyre::detail::task_access::state(work).take_error();
    if (error == nullptr) co_return co_await gyre::detail::take_result(work);
    if (self->is_closed_)
      error = error_of_closed(std::move(error), self->connector_.describe(name));
    co_await gyre::detail::fail_with(error);
    std::unreachable();
  }

  void close() noexcept {
    if (std::exchange(is_closed_, true)) return;
    close_source_.request_stop();
    if constexpr (!stops_asynchronously<Connection>) {
      if (current_connection_ == nullptr || current_connection_->users > 0) return;
      const connection_ptr old_connection = current_connection_;
      retire_connection(old_connection);
      old_connection->connection.reset();
    }
  }
  static task<> stop(shared self) {
    const task_context& context = co_await gyre::detail::this_context();
    if (self == nullptr) co_return;
    require_loop(self->loop(), context, name);
    self->close();
    while (self->calls_ > 0) co_await self->calls_ended_.wait();
    const connection_ptr old_connection = self->current_connection_;
    if (old_connection == nullptr) co_return;
    const running_call own_call(*self);  // whether another stop() waits for this one
    self->retire_connection(old_connection);
    co_await end_connection(old_connection);
  }

  client_state state() const noexcept {
    if (is_closed_) return client_state::closed;
    return current_connection_ != nullptr ? client_state::connected : progress_;
  }
  reconnecting_client_metrics metrics() const noexcept { return metrics_; }

 private:
  static constexpr const char* name = "gyre::net::reconnecting_client";

  /// A connection and the state of its uses.
  struct counted_connection {
    std::unique_ptr<Connection> connection;
    std::size_t users = 0;
    bool is_fresh = true;        // whether no use has ended yet
    bool has_succeeded = false;  // whether a use has succeeded
    bool is_retired =
        false;  // whether no further call may use the connection; its last user ends it
  };
  using connection_ptr = std::shared_ptr<counted_connection>;

  class running_call {
   public:
    explicit running_call(shared_connection& client) noexcept : client_(client) {
      ++client.calls_;
      client.calls_ended_.reset();
    }
    running_call& operator=(running_call&&) = delete;
    ~running_call() {
      if (--client_.calls_ == 0 && client_.is_closed_) client_.calls_ended_.set();
    }

   private:
    shared_connection& client_;
  };

  class waiter {
   public:
    // A repeated call is not limited again, because it was admitted before.
    waiter(shared_connection& client, bool is_repeated) : metrics_(client.metrics_) {
      if (!is_repeated && metrics_.waiting >= client.options_.max_waiting) {
        client.connector_.fail(io::errc::waiting_limit, name);
      }
      ++metrics_.waiting;
    }
    waiter& operator=(waiter&&) = delete;
    ~waiter() { --metrics_.waiting; }

   private:
    reconnecting_client_metrics& metrics_;
  };

  /// The use of a connection by one call. Retires the connection if the call's coroutine is
  /// destroyed before end(), because the state of the connection is then unknown.
  class running_use {
   public:
    running_use(shared_connection& client, connection_ptr connection) noexcept
        : client_(client), connection_(std::move(connection)) {
      ++connection_->users;
    }
    running_use& operator=(running_use&&) = delete;
    ~running_use() {
      if (connection_ == nullptr) return;
      client_.note_failure(connection_, false);
      client_.retire_connection(connection_);
      if (--connection_->users == 0) connection_->connection.reset();
    }
    /// Ends the use. Returns the connection if it is retired and this was its last use; the caller
    /// must then end it.
    connection_ptr end() noexcept {
      connection_ptr connection = std::move(connection_);
      connection->is_fresh = false;
      return --connection->users == 0 && connection->is_retired ? std::move(connection) : nullptr;
    }

   private:
    shared_connection& client_;
    connection_ptr connection_;
  };

  event_loop& loop() const noexcept { return connector_.loop(); }

  template <class F>
  static task<result_of<F>> use_repeatedly(shared self, F function, std::size_t uses) {
    for (std::size_t use_number = 1;; ++use_number) {
      semaphore_permit permit;
      task<connection_ptr> wait_task = wait_for_turn(self, permit, use_number > 1);
      const connection_ptr connection = co_await std::move(wait_task);
      running_use use(*self, connection);
      task<result_of<F>> work;
      std::exception_ptr error = begin_use(function, *connection->connection, work);
      if (error == nullptr) {
        co_await gyre::detail::await_ready_state(work);
        error = gyre::detail::task_access::state(work).take_error();
      }
      if (error == nullptr) {
        self->note_success(*connection);
      } else {
        self->note_error(connection, error);
      }
      if (self->is_closed_) self->retire_connection(connection);
      if (const connection_ptr last = use.end()) co_await end_connection(last);
      permit.release();
      if (error == nullptr) co_return co_await gyre::detail::take_result(work);
      if (use_number >= uses || !is_retryable(error)) co_await gyre::detail::fail_with(error);
      ++self->metrics_.repetitions;
    }
  }

  // Calls `function`, and stores its awaitable in `work`. Returns the exception if the call throws.
  template <class F>
  static std::exception_ptr begin_use(F& function, Connection& connection,
                                      task<result_of<F>>& work) {
    try {
      work = as_task(std::invoke(function, connection));
      return nullptr;
    } catch (...) {
      return gyre::detail::caught_error();
    }
  }

  // Returns a connection that is ready for use, and sets `permit` to a permit for it.
  static task<connection_ptr> wait_for_turn(shared self, semaphore_permit& permit,
                                            bool is_repeated) {
    const waiter own_wait(*self, is_repeated);
    for (;;) {
      if (self->is_closed_) self->connector_.fail(io::errc::closed, name);
      connection_ptr connection = self->current_connection_;
      if (connection == nullptr) {
        auto connect_task =
            self->connect_flight_.run({}, [self](std::monostate) { return connect(self); });
        connection = co_await std::move(connect_task);
      }
      permit = co_await self->permits_.permit();
      if (connection == self->current_connection_) {
        if (self->is_ready(*connection)) co_return connection;
        // The server has closed the connection since its last use.
        if (!connection->has_succeeded) self->schedule_.note_failure(self->loop().now());
        self->retire_connection(connection);
        if (connection->users == 0) co_await end_connection(connection);
      }
      permit.release();
    }
  }
  // Whether a connection can be used. A fresh connection is not checked, because it may hold the
  // server's greeting.
  bool is_ready(counted_connection& connection) const {
    if (connection.is_fresh || (connection.users > 0 && !tells_reusable<Connection>)) return true;
    return is_reusable(*connection.connection);
  }

  // Attempts to connect until an attempt succeeds, or all have failed, for all calls that wait.
  static task<connection_ptr> connect(shared self) {
    for (std::size_t attempt = 1;; ++attempt) {
      const progress now(*self, client_state::waiting);
      const steady_time start = self->schedule_.next_attempt();
      if (start > self->loop().now()) co_await sleep_until(start);
      self->progress_ = client_state::connecting;
      ++self->metrics_.attempts;
      auto connect_task = as_result(self->connector_.connect(self->options_.connect_timeout));
      auto result = co_await std::move(connect_task);
      if (result) {
        ++self->metrics_.connected;
        auto replacement = std::make_shared<counted_connection>();
        replacement->connection = std::move(*result);
        // Another attempt may have set current_connection_ meanwhile, if all calls that waited for
        // this one were stopped.
        if (!self->is_closed_ && self->current_connection_ == nullptr)
          self->current_connection_ = replacement;
        if (self->current_connection_ != replacement) co_await end_connection(replacement);
        co_return replacement;
      }
      ++self->metrics_.failures;
      self->schedule_.note_failure(self->loop().now());
      std::exception_ptr error = std::move(result).error();
      if (attempt < self->options_.attempts && is_retryable(error)) continue;
      error = error_of_attempts(std::move(error), attempt, self->connector_.describe(name));
      co_await gyre::detail::fail_with(error);
    }
  }
  class progress {
   public:
    progress(shared_connection& client, client_state state) noexcept : client_(client) {
      client.progress_ = state;
    }
    progress& operator=(progress&&) = delete;
    ~progress() { client_.progress_ = client_state::disconnected; }

   private:
    shared_connection& client_;
  };

  void note_success(counted_connection& connection) noexcept {
    connection.has_succeeded = true;
    if (!connection.is_retired) schedule_.note_success();
  }
  void note_error(const connection_ptr& connection, const std::exception_ptr& error) noexcept {
    if (connection->is_retired) return;  // another use has reported the same end
    if constexpr (tells_reusable<Connection>) {
      if (is_reusable(*connection->connection)) return;
    }
    note_failure(connection, is_retryable(error));
    retire_connection(connection);
  }
  // Delays the next attempt, unless the connection has served before and its end is not the
  // server's fault.
  void note_failure(const connection_ptr& connection, bool is_fault) noexcept {
    if (!connection->is_retired && (is_fault || !connection->has_succeeded))
      schedule_.note_failure(loop().now());
  }
  // Takes a connection out of use, so that the next call connects again.
  void retire_connection(const connection_ptr& connection) noexcept {
    if (std::exchange(connection->is_retired, true)) return;
    ++metrics_.broken;
    if (current_connection_ == connection) current_connection_.reset();
  }
  // Ends a connection without users.
  static task<> end_connection(connection_ptr ended_connection) {
    const std::unique_ptr<Connection> connection = std::move(ended_connection->connection);
    if constexpr (stops_asynchronously<Connection>) {
      if (connection != nullptr) {
        static_cast<void>(co_await as_result(shielded(as_task(connection->stop()))));
      }
    }
    co_return;
  }

  const reconnecting_client_options options_;
  attempt_schedule schedule_;
  semaphore permits_;  // the permits to use the connection
  connector<Connection> connector_;
  single_flight<std::monostate, connection_ptr> connect_flight_;
  connection_ptr current_connection_;
  client_state progress_ = client_state::disconnected;
  inplace_stop_source close_source_;
  bool is_closed_ = false;
  std::size_t calls_ = 0;
  manual_reset_event calls_ended_;
  reconnecting_client_metrics metrics_;
};

}  // namespace gyre::net::detail
