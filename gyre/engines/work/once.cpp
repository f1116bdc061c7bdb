// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/once.hpp>

#include <gyre/engines/work/detail/translate_error.hpp>
#include <gyre/engines/work/job.hpp>

#include <optional>

namespace gyre::work {

task<bool> once(postgres::transaction& tx, std::string key) {
  const std::optional<detail::attempt_token> token = co_await detail::current_attempt.get();
  const auto part = [&](auto detail::attempt_token::* member) {
    return token ? std::optional(*token.*member) : std::nullopt;
  };
  co_return co_await detail::translated(tx.query_one<bool>(
      "select work.once($1, $2, $3, $4)", key, part(&detail::attempt_token::job),
      part(&detail::attempt_token::attempt), part(&detail::attempt_token::worker)));
}

}  // namespace gyre::work
