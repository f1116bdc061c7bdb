// SPDX-License-Identifier: Apache-2.0
// redis-plus-plus: its asynchronous interface with callbacks, a connection of its own for each
// object, and the thread of libuv that it starts.
#include <lab/experiments/redis_get/workload.hpp>

#include <sw/redis++/async_redis++.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <latch>
#include <string>
#include <string_view>

namespace {

using lab::engines::caller;
using lab::redis_get::server_address;

class redis_plus_plus_client {
 public:
  static void serve(const server_address& server, std::span<caller> callers) {
    sw::redis::ConnectionOptions options;
    options.type = sw::redis::ConnectionType::UNIX;
    options.path = server.socket;
    sw::redis::ConnectionPoolOptions pool;
    pool.size = 1;
    redis_plus_plus_client self(server.items, options, pool, callers.size());
    for (caller& each : callers) self.ask(each);
    self.running_.wait();
  }

 private:
  redis_plus_plus_client(const lab::engines::item_set& items,
                         const sw::redis::ConnectionOptions& options,
                         const sw::redis::ConnectionPoolOptions& pool, std::size_t callers)
      : items_(items), running_(static_cast<std::ptrdiff_t>(callers)), redis_(options, pool) {}

  void ask(caller& of) {
    redis_.get(items_.key(of.ask()),
               [this, &of](sw::redis::Future<sw::redis::OptionalString>&& reply) {
                 if (take(of, std::move(reply))) {
                   ask(of);
                 } else {
                   running_.count_down();
                 }
               });
  }

  static bool take(caller& of, sw::redis::Future<sw::redis::OptionalString>&& reply) {
    try {
      const sw::redis::OptionalString value = reply.get();
      return value ? of.take(*value) : of.take_failure();
    } catch (const std::exception&) {
      of.take_failure();
      return false;
    }
  }

  const lab::engines::item_set& items_;
  std::latch running_;
  sw::redis::AsyncRedis redis_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::redis_get::contender_main<redis_plus_plus_client>(argc, argv);
}
