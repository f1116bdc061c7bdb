// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/run_on_core.hpp>

#include <gyre/net/detail/coroutine_loop.hpp>
#include <gyre/task/detail/cancelled.hpp>

#include <algorithm>
#include <chrono>
#include <limits>

namespace gyre::postgres::detail {

void require_caller(const task_context& context, event_loop& loop) {
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  net::detail::require_loop(loop, context, "gyre::postgres::client");
}

std::optional<std::int64_t> server_limit(std::optional<duration> limit) noexcept {
  if (!limit) return std::nullopt;
  using std::chrono::milliseconds;
  const std::int64_t count = std::chrono::ceil<milliseconds>(std::min<std::chrono::nanoseconds>(
                                                                 *limit, std::chrono::hours{576}))
                                 .count();
  if (*limit == duration::max()) return 0;
  return std::max<std::int64_t>(count, 1);
}

std::string limit_text(std::optional<std::int64_t> limit) {
  if (!limit) return "set local statement_timeout to default";
  return "select pg_catalog.set_config('statement_timeout', '" + std::to_string(*limit) +
         "', true)";
}

}  // namespace gyre::postgres::detail
