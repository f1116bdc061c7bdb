// SPDX-License-Identifier: Apache-2.0
// run_transaction: a transaction with its repetitions.
#pragma once

#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/engines/postgres/detail/client_core.hpp>
#include <gyre/engines/postgres/detail/transaction_state.hpp>
#include <gyre/engines/postgres/transaction_options.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace gyre::postgres::detail {

/// The attempts of a transaction.
class transaction_attempts {
 public:
  /// Throws std::invalid_argument for options that make no sense.
  transaction_attempts(client_core& client, const transaction_options& options);

  /// Returns the time until the next attempt; std::nullopt if the error is final.
  std::optional<duration> delay_after(const std::exception_ptr& error,
                                      const transaction_state& state);

 private:
  client_core& client_;
  const transaction_options& options_;
  std::size_t attempts_ = 0;
};

template <class Transaction, class Body>
task<body_result<Transaction, Body>> run_transaction(std::shared_ptr<client_core> client, Body body,
                                                     transaction_options options) {
  require_runner(client);
  transaction_attempts attempts(*client, options);
  for (;;) {
    std::optional<duration> delay;
    {
      auto begin_task = client_core::begin_transaction(client, options);
      const transaction_state::shared state = co_await std::move(begin_task);
      // finally() rolls back even after a stop.
      auto attempt = as_result(finally(run_body<Transaction>(state, body, options.commit_timeout),
                                       transaction_state::roll_back(state)));
      auto result = co_await std::move(attempt);
      if (result) {
        if constexpr (std::is_void_v<body_result<Transaction, Body>>) {
          co_return;
        } else {
          co_return std::move(*result);
        }
      }
      delay = attempts.delay_after(result.error(), *state);
      if (!delay) std::rethrow_exception(result.error());
    }
    // The pause holds no connection: the lease has ended with the block above.
    co_await sleep_for(*delay);
  }
}

}  // namespace gyre::postgres::detail
