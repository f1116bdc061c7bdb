// SPDX-License-Identifier: Apache-2.0
// once: makes an effect in the database exactly once, although jobs run at least once.
//
//     co_await db.transaction([&](gyre::postgres::transaction& tx) -> gyre::task<> {
//       const bool is_first = co_await gyre::work::once(tx, "invoice:" + order);
//       if (!is_first) co_return;
//       co_await tx.execute("update account set amount = amount - $1 where id = $2", sum, id);
//     });
#pragma once

#include <gyre/engines/postgres/transaction.hpp>
#include <gyre/task/task.hpp>

#include <string>
#include <vector>

namespace gyre::work {

/// Returns true to the first transaction with this key that is committed, and false to all later
/// ones; one at the same time waits for the other's end. So what a transaction does after a true
/// happens exactly once. The key is remembered for worker_options::keep_done.
///
/// Within a handler it also ensures that the attempt is still the job's current one when the
/// transaction is committed: until then no other worker gets the job, and the server ends the
/// transaction if it is idle for longer than the worker's lease. Coroutines that spawn() starts
/// are not within the handler.
///
/// In worker::handle_in_transaction() only the handler's own transaction notices that a job was
/// taken over: use once() with that one.
///
/// `key`: 1 to 1000 bytes, unique over all kinds of jobs and effects.
/// Errors: errc::attempt_taken_over if the worker has lost the job: let it leave the transaction's
/// body, which rolls back; those of postgres::querier.
[[nodiscard]] task<bool> once(postgres::transaction& tx, std::string key);
/// As once() for each of many keys, with one statement; the result has an element for each key, in
/// their order. Among equal keys only the first may get true.
[[nodiscard]] task<std::vector<bool>> once(postgres::transaction& tx,
                                           std::vector<std::string> keys);

}  // namespace gyre::work
