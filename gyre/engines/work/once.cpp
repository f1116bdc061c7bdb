// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/once.hpp>

#include <gyre/engines/work/detail/translate_error.hpp>
#include <gyre/engines/work/job.hpp>

#include <cstdint>
#include <optional>

namespace gyre::work {
namespace {

/// The token of the handler that runs, as arguments: null outside of handlers.
struct token_arguments {
  explicit token_arguments(const std::optional<detail::attempt_token>& token) {
    if (!token) return;
    job = token->job;
    attempt = token->attempt;
    worker = token->worker;
  }

  std::optional<job_id> job;
  std::optional<std::int32_t> attempt;
  std::optional<detail::worker_id> worker;
};

}  // namespace

task<bool> once(postgres::transaction& tx, std::string key) {
  const token_arguments token(co_await detail::current_attempt.get());
  co_return co_await detail::translated(tx.query_one<bool>("select work.once($1, $2, $3, $4)", key,
                                                           token.job, token.attempt, token.worker));
}

task<std::vector<bool>> once(postgres::transaction& tx, std::vector<std::string> keys) {
  const token_arguments token(co_await detail::current_attempt.get());
  if (keys.empty()) co_return std::vector<bool>();
  co_return co_await detail::translated(
      tx.query<bool>("select * from work.once_each($1, $2, $3, $4)", keys, token.job, token.attempt,
                     token.worker));
}

}  // namespace gyre::work
