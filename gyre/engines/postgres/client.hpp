// SPDX-License-Identifier: Apache-2.0
// client: statements and transactions on a PostgreSQL server, for all coroutines of a loop.
//
//     gyre::postgres::client db(loop, "postgresql://app@localhost/shop");
//
//     auto items = co_await db.query<std::tuple<std::int64_t, std::string>>(
//         "select id, name from item where price < $1", 10);
//     auto id = co_await db.query_one<std::int64_t>(
//         "insert into item (name) values ($1) returning id", "bolt");
#pragma once

#include <gyre/engines/postgres/client_options.hpp>
#include <gyre/engines/postgres/detail/client_core.hpp>
#include <gyre/engines/postgres/detail/run_transaction.hpp>
#include <gyre/engines/postgres/querier.hpp>
#include <gyre/engines/postgres/session.hpp>
#include <gyre/engines/postgres/subscription.hpp>
#include <gyre/engines/postgres/subscription_options.hpp>
#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/engines/postgres/transaction_options.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::postgres {

/// A client of one database. Statements outside of transactions share a few connections, on which
/// they follow each other without waiting for the replies ("pipelining"): each is a transaction of
/// its own. Transactions, streams, copies and sessions take a connection of their own from a pool.
///
/// Slow statements: those behind one on its connection wait until it has ended. If its call is
/// stopped, the server is asked to cancel it only when no other caller's statement is in flight on
/// that connection. Give it a limit that the server enforces (statement_options::timeout,
/// client_options::statement_timeout), or run it in a transaction or a session.
///
/// Connecting: the first call connects; calls wait meanwhile. When `max_connect_attempts` have
/// failed, the calls that wait fail, and the next call tries again.
///
/// Repetition: a statement that the kernel has not taken when the connection breaks is sent over
/// the next one. A statement that the server may have got fails with errc::connection_lost, and may
/// have been executed, unless statement_options::is_idempotent lets it be sent again.
///
/// Thread-safety: the loop's thread; make a client for each loop.
/// Lifetime: the loop must outlive the client. The destructor is close(); calls that it ends may
/// outlive the client.
/// Errors: of calls: those of querier. The constructors throw std::invalid_argument for options
/// that make no sense, and the errors of client_options::parse().
class client : public querier {
 public:
  /// Makes a client for a URL, which client_options::parse() reads.
  template <std::convertible_to<std::string_view> Text>
  client(event_loop& loop, const Text& url)
      : client(loop, client_options::parse(std::string_view(url))) {}
  client(event_loop& loop, const client_options& options)
      : client(std::make_shared<detail::client_core>(loop, options)) {}
  client(client&&) noexcept = default;
  client& operator=(client&& other) noexcept {
    client replacement(std::move(other));
    std::swap(runner_, replacement.runner_);
    std::swap(core_, replacement.core_);
    return *this;
  }
  ~client() { close(); }

  /// Runs `body(tx)`, an awaitable, in a transaction, commits it, and returns the body's result. If
  /// the body throws or is stopped, the transaction is rolled back.
  ///
  /// After a serialisation failure, a deadlock, or a connection that was lost before COMMIT the
  /// body runs again, `max_attempts` times in all: besides its statements it must do nothing that
  /// must not be repeated.
  ///
  /// Errors: those of the body; those of querier; errc::commit_unknown if the reply to COMMIT was
  /// lost; errc::transaction_aborted if the body ignored an error of the server.
  /// Lifetime: the body is moved into the call, and its captures live until the call has ended.
  /// With GCC 12 a lambda that captures by value needs a name (see invoke()).
  template <transaction_body Body>
  [[nodiscard]] task<transaction_result_t<Body>> transaction(Body body,
                                                             transaction_options options = {}) {
    return detail::run_transaction<postgres::transaction>(core_, std::move(body), options);
  }

  /// A connection for one coroutine alone; waits while `max_open` are taken.
  [[nodiscard]] task<session> acquire_session() { return detail::acquire_session(core_); }

  /// Subscribes to the notifications of a channel (LISTEN), and waits until the server has
  /// confirmed it. All subscriptions share a connection of their own.
  [[nodiscard]] task<subscription> listen(std::string channel, subscription_options options = {}) {
    return detail::listen(core_, std::move(channel), options);
  }

  /// Ends running and waiting calls with io::errc::closed, and closes the connections. Idempotent.
  void close() noexcept {
    if (core_ != nullptr) core_->close();
  }
  /// The loop, and the options that it was made with, for a further client of the same database.
  /// The client must not have been moved from.
  [[nodiscard]] event_loop& loop() const noexcept { return core_->loop(); }
  [[nodiscard]] const client_options& options() const noexcept { return core_->options(); }
  [[nodiscard]] client_metrics metrics() const noexcept {
    return core_ != nullptr ? core_->metrics() : client_metrics();
  }

 private:
  explicit client(std::shared_ptr<detail::client_core> core) noexcept
      : querier(core), core_(std::move(core)) {}

  std::shared_ptr<detail::client_core> core_;
};

}  // namespace gyre::postgres
