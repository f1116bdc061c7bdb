// SPDX-License-Identifier: Apache-2.0
// transaction: statements of SQL that take effect together, or not at all.
//
//     co_await db.transaction([&](gyre::postgres::transaction& tx) -> gyre::task<> {
//       co_await tx.execute("update account set amount = amount - $1 where id = $2", sum, giver);
//       co_await tx.execute("update account set amount = amount + $1 where id = $2", sum, taker);
//     }, {.isolation = gyre::postgres::isolation::serializable});
#pragma once

#include <gyre/engines/postgres/detail/transaction_state.hpp>
#include <gyre/engines/postgres/querier.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace gyre::postgres {

class transaction;

/// A function that a transaction runs: `body(tx)` returns an awaitable.
template <class Body>
concept transaction_body =
    std::invocable<Body&, transaction&> && awaitable<std::invoke_result_t<Body&, transaction&>>;

/// The result of a transaction_body.
template <transaction_body Body>
using transaction_result_t = task_result_t<std::invoke_result_t<Body&, transaction&>>;

/// A transaction that runs, on a connection of its own; made by client::transaction(). BEGIN is
/// sent with the first statement.
///
/// After an error of the server every further statement fails with errc::in_failed_transaction,
/// and COMMIT would roll back: let the error leave the body, or enclose in savepoint() what may
/// fail.
///
/// Thread-safety: the loop's thread.
/// Lifetime: within the body. Calls that outlive it fail with errc::transaction_ended.
/// Errors: those of querier; std::logic_error if it is used while one of its savepoints is open.
class transaction : public querier {
 public:
  explicit transaction(std::shared_ptr<detail::transaction_state> state) noexcept
      : querier(state), state_(std::move(state)) {}
  transaction& operator=(transaction&&) = delete;
  ~transaction() = default;

  /// Runs `body(inner)`, an awaitable, and returns its result. If it fails, or is stopped, its
  /// statements are undone (ROLLBACK TO SAVEPOINT), and the transaction can continue. Savepoints
  /// may be nested; meanwhile only the innermost may be used.
  ///
  /// Lifetime: as client::transaction().
  template <transaction_body Body>
  [[nodiscard]] task<transaction_result_t<Body>> savepoint(Body body) {
    return detail::run_savepoint<transaction>(state_, std::move(body));
  }

 private:
  std::shared_ptr<detail::transaction_state> state_;
};

}  // namespace gyre::postgres
