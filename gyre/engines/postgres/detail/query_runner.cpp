// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/query_runner.hpp>

#include <gyre/io/error.hpp>

#include <system_error>

namespace gyre::postgres::detail {

void require_runner(const shared_runner& runner) {
  if (runner != nullptr) return;
  throw std::system_error(make_error_code(io::errc::not_open),
                          "gyre::postgres::client: it was moved from");
}

task<> run_script(shared_runner runner, std::string script) {
  require_runner(runner);
  task<> run_task = runner->run_script(std::move(script));
  co_await std::move(run_task);
}

task<> notify(shared_runner runner, std::string channel, std::string payload) {
  task<std::uint64_t> execute_task = execute_statement(
      std::move(runner), statement("select pg_catalog.pg_notify($1, $2)"),
      std::tuple<std::string, std::string>(std::move(channel), std::move(payload)));
  co_await std::move(execute_task);
}

}  // namespace gyre::postgres::detail
