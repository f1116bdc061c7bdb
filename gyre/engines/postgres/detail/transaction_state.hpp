// SPDX-License-Identifier: Apache-2.0
// transaction_state: a transaction or a savepoint on a connection of its own.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/postgres/client_options.hpp>
#include <gyre/engines/postgres/detail/owned_connection.hpp>
#include <gyre/engines/postgres/detail/query_runner.hpp>
#include <gyre/engines/postgres/detail/statement_reply.hpp>
#include <gyre/engines/postgres/transaction_options.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {

class client_core;

/// A connection that a transaction or session has taken, and what it knows of the server's state.
class connection_lease {
 public:
  using pooled = net::pooled_connection<owned_connection>;

  connection_lease(std::shared_ptr<client_core> client, pooled connection);
  connection_lease& operator=(connection_lease&&) = delete;
  /// Gives the connection back, if it may serve another use.
  ~connection_lease();

  client_core& client() const noexcept { return *client_; }
  const std::shared_ptr<connection_core>& core() const noexcept { return core_; }
  /// Throws errc::connection_lost, or io::errc::closed if the client has closed it.
  void require_connected() const;
  /// Ensures that no other caller gets the connection, because its state is unknown.
  void keep_from_others() noexcept { is_for_others_ = false; }

  // The statements that are sent before the next statement, in the same request.
  std::vector<std::string> pending_statements;
  /// The time limit of statements that the server has within this transaction, in milliseconds;
  /// none: that of the connection.
  std::optional<std::int64_t> limit;
  bool is_limit_known = true;
  std::size_t depth = 0;  // how many savepoints are open
  bool has_open_copy = false;
  bool has_open_batch = false;
  std::uint64_t names = 0;

 private:
  std::shared_ptr<client_core> client_;
  pooled pooled_connection_;
  std::shared_ptr<connection_core> core_;
  bool is_for_others_ = true;
};

/// A level of a connection: the session itself, a transaction in it, or a savepoint.
class transaction_state final : public query_runner,
                                public std::enable_shared_from_this<transaction_state> {
 public:
  using shared = std::shared_ptr<transaction_state>;

  /// The texts that end this level; empty for a session.
  struct ending {
    std::string commit;
    std::string rollback;
  };

  /// `begin`: sent in front of the first statement; empty for a session.
  transaction_state(std::shared_ptr<connection_lease> lease, std::string begin, ending statements,
                    std::optional<duration> statement_timeout);

  static shared session(std::shared_ptr<connection_lease> lease);
  static shared transaction(std::shared_ptr<connection_lease> lease,
                            const transaction_options& options);
  /// Begins a savepoint.
  shared savepoint();

  bool has_ended() const noexcept { return has_ended_; }
  /// Whether COMMIT was sent, so that nothing may be repeated.
  bool has_sent_commit() const noexcept { return has_sent_commit_; }
  connection_lease& lease() const noexcept { return *lease_; }

  task<std::uint64_t> run(const statement& text, const argument_list& arguments,
                          row_sink& rows) override;
  task<> run_script(std::string script) override;
  task<joined_transaction> join(bool needs_transaction) override;

  /// COMMIT, or RELEASE SAVEPOINT. A stop ends it before, and not afterwards.
  static task<> commit(shared self, duration limit);
  /// ROLLBACK, or ROLLBACK TO SAVEPOINT, unless it has ended. Throws nothing.
  static task<> roll_back(shared self);

  // --- For streams and copies ---

  /// Prepares a statement.
  task<connection_core::shared_statement> prepare(std::string_view text);
  /// Waits until a request may be appended.
  task<> admit();
  /// Waits as admit() does, and until no request is in flight.
  task<> wait_until_idle();
  /// Sends the statements in front in a request of their own, before one that takes none.
  task<> send_prefix();
  /// The statements to be sent in front, which the caller appends after admit().
  std::vector<std::string_view> prefix() const;
  void note_prefix_sent() noexcept;
  connection_core& core() const noexcept { return *lease_->core(); }
  void require_usable() const;
  /// Sends the time limit of statements in front of the next statement, unless the server has it.
  void set_limit(std::optional<duration> limit);
  /// The limit for set_limit() that a statement has here.
  std::optional<duration> limit_of(const statement& text) const noexcept;
  /// Whether the server limits the time of the statement.
  bool has_limit(const statement& text) const noexcept;
  std::string next_name(std::string_view kind);

 private:
  /// `limit`: for the server; none: that of the connection.
  task<std::uint64_t> run_unlimited(const statement& text, const argument_list& arguments,
                                    row_sink& rows, std::optional<duration> limit);
  task<> send_ending(std::string text, bool is_commit);
  void end() noexcept;
  bool is_begun() const noexcept;
  bool is_in_transaction() const noexcept {
    return !begin_.empty() || core().status() != transaction_status::idle;
  }

  std::shared_ptr<connection_lease> lease_;
  const std::string begin_;
  const ending ends_;
  const std::optional<duration> statement_timeout_;
  const std::size_t depth_;
  bool has_ended_ = false;
  bool has_sent_commit_ = false;
};

template <class Transaction, class Body>
using body_result = task_result_t<std::invoke_result_t<Body&, Transaction&>>;

/// Runs the body, and ends the transaction.
template <class Transaction, class Body>
task<body_result<Transaction, Body>> run_body(transaction_state::shared state, Body& body,
                                              duration commit_timeout) {
  Transaction level(state);
  if constexpr (std::is_void_v<body_result<Transaction, Body>>) {
    auto run_task = body(level);
    co_await std::move(run_task);
    task<> commit_task = transaction_state::commit(state, commit_timeout);
    co_await std::move(commit_task);
  } else {
    auto run_task = body(level);
    body_result<Transaction, Body> result = co_await std::move(run_task);
    task<> commit_task = transaction_state::commit(state, commit_timeout);
    co_await std::move(commit_task);
    co_return result;
  }
}

template <class Transaction, class Body>
task<body_result<Transaction, Body>> run_savepoint(transaction_state::shared parent, Body body) {
  const transaction_state::shared savepoint = parent->savepoint();
  auto run_task = finally(run_body<Transaction>(savepoint, body, duration::max()),
                          transaction_state::roll_back(savepoint));
  co_return co_await std::move(run_task);
}

}  // namespace gyre::postgres::detail
