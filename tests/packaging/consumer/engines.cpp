// SPDX-License-Identifier: Apache-2.0
// A user's program with clients of other programs, whose servers do not run here.
#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/jetstream.hpp>
#include <gyre/engines/nats/key_value.hpp>
#include <gyre/engines/nats/service.hpp>
#include <gyre/engines/postgres/client.hpp>
#include <gyre/engines/redis/cached_client.hpp>
#include <gyre/engines/redis/client.hpp>
#include <gyre/engines/work/queue.hpp>
#include <gyre/engines/work/worker.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>

#include <cstdio>
#include <system_error>
#include <utility>

// Whether a call fails for want of its server.
template <class Result>
gyre::task<bool> misses_server(gyre::task<Result> call) {
  try {
    co_await std::move(call);
  } catch (const std::system_error& error) {
    co_return error.code() == std::errc::no_such_file_or_directory ||
        error.code() == std::errc::connection_refused;
  }
  co_return false;
}

gyre::task<bool> misses_each_server(gyre::loop& loop) {
  gyre::redis::client cache(loop, "unix:/nonexistent/redis.sock", {.max_connect_attempts = 1});
  gyre::nats::client bus(loop, "127.0.0.1:1", {.max_connect_attempts = 1});
  gyre::postgres::client_options options;
  options.server = "unix:/nonexistent/.s.PGSQL.5432";
  options.user = "app";
  options.max_connect_attempts = 1;
  gyre::postgres::client database(loop, options);
  gyre::work::queue jobs(database);
  co_return co_await misses_server(cache.call<void>("PING")) &&
      co_await misses_server(bus.connect()) &&
      co_await misses_server(database.execute("select 1")) &&
      co_await misses_server(jobs.status(1));
}

int main() {
  gyre::loop loop;
  const bool done = gyre::sync_wait(loop, misses_each_server(loop)) &&
                    gyre::redis::script("return 1").hash().size() == 40;
  std::puts(done ? "done" : "failed");
  return done ? 0 : 1;
}
