// SPDX-License-Identifier: Apache-2.0
// cached_client: a Redis client that keeps what it has read, until the server says that it has
// changed.
//
//     gyre::redis::cached_client cache(loop, server, {}, {.max_bytes = 16 << 20});
//
//     auto name = co_await cache.read<std::optional<std::string>>("GET", "user:7");
//     name = co_await cache.read<std::optional<std::string>>("GET", "user:7");  // from memory
//     co_await cache.uncached().call<void>("SET", "user:7", "Ada");
#pragma once

#include <gyre/engines/redis/argument_traits.hpp>
#include <gyre/engines/redis/cache_options.hpp>
#include <gyre/engines/redis/client.hpp>
#include <gyre/engines/redis/client_options.hpp>
#include <gyre/engines/redis/command.hpp>
#include <gyre/engines/redis/detail/reply_cache.hpp>
#include <gyre/engines/redis/reply.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <memory>
#include <string_view>
#include <utility>

namespace gyre::redis {

/// Keeps replies to commands that read one key ("client-side caching"). The server notes the keys
/// (CLIENT TRACKING) and sends a message when one of them changes, expires or is evicted. Reads of
/// a key that is not in memory are sent once, however many coroutines wait for the reply.
///
/// How old a reply may be: a change is seen when its message has come, a moment after the writer
/// has got its reply, also for changes by this client. If the network breaks silently, no message
/// comes until the connection is given up: up to `ping_interval` + 2 * `reply_timeout` of
/// client_options. When a connection ends, all is forgotten. No reply is older than
/// cache_options::max_age.
///
/// Thread-safety: the loop's thread; make one for each loop.
/// Lifetime: as client.
/// Errors: as client. A server older than Redis 6 fails all calls with errc::not_supported.
/// Complexity: a read from memory is a coroutine frame and the conversion of the reply.
class cached_client {
 public:
  /// `server`: as for client. Throws std::invalid_argument for options that make no sense.
  template <std::convertible_to<net::host_port> Server>
  cached_client(event_loop& loop, const Server& server, const client_options& options = {},
                const cache_options& memory = {})
      : cached_client(net::host_port(server), loop, options,
                      std::make_shared<detail::reply_cache>(loop, memory)) {}

  /// Sends a command that reads `key` and no other key, such as GET, HGET, LRANGE or ZSCORE, unless
  /// the reply is in memory. A lost connection sends it again, as client::call_idempotent() does.
  /// Errors are not kept. `name`, and arguments that are neither temporaries nor numbers, must
  /// outlive the call.
  ///
  /// Errors: errc::not_cacheable for other commands.
  template <class Result = reply, std::convertible_to<std::string_view> Key,
            command_argument... Arguments>
  [[nodiscard]] task<Result> read(std::string_view name, Key&& key, Arguments&&... arguments) {
    return detail::reply_cache::read<Result>(
        memory_, client_.core_,
        command<Result>(name, std::forward<Key>(key), std::forward<Arguments>(arguments)...));
  }

  /// Commands of all kinds, over the same connection.
  [[nodiscard]] client& uncached() noexcept { return client_; }
  /// Drops all replies from the cache.
  void clear() noexcept {
    if (memory_ != nullptr) memory_->clear();
  }
  /// Closes the client as client::close() does.
  void close() noexcept { client_.close(); }
  [[nodiscard]] cache_metrics metrics() const noexcept {
    return memory_ != nullptr ? memory_->metrics() : cache_metrics();
  }

 private:
  cached_client(const net::host_port& server, event_loop& loop, const client_options& options,
                std::shared_ptr<detail::reply_cache> memory)
      : client_(std::make_shared<detail::client_core>(loop, server, options,
                                                      detail::connection_use::shared, memory)),
        memory_(std::move(memory)) {}

  client client_;
  std::shared_ptr<detail::reply_cache> memory_;
};

}  // namespace gyre::redis
