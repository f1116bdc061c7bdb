// SPDX-License-Identifier: Apache-2.0
// A user's program with clients of other programs, whose servers do not run here.
#include <gyre/engines/redis/client.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>

#include <cstdio>
#include <string>
#include <system_error>

gyre::task<bool> finds_no_redis(gyre::loop& loop) {
  gyre::redis::client cache(loop, "unix:/nonexistent/redis.sock", {.max_connect_attempts = 1});
  try {
    co_await cache.call<void>("PING");
  } catch (const std::system_error& error) {
    co_return error.code() == std::errc::no_such_file_or_directory;
  }
  co_return false;
}

int main() {
  gyre::loop loop;
  const bool done = gyre::sync_wait(loop, finds_no_redis(loop)) &&
                    gyre::redis::script("return 1").hash().size() == 40;
  std::puts(done ? "done" : "failed");
  return done ? 0 : 1;
}
