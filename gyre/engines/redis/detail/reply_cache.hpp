// SPDX-License-Identifier: Apache-2.0
// reply_cache: the memory of a cached Redis client.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/engines/redis/cache_options.hpp>
#include <gyre/engines/redis/detail/awaited_reply.hpp>
#include <gyre/engines/redis/detail/client_core.hpp>
#include <gyre/engines/redis/detail/command_rules.hpp>
#include <gyre/engines/redis/detail/invalidation_listener.hpp>
#include <gyre/engines/redis/reply_cursor.hpp>
#include <gyre/engines/redis/reply_traits.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/sync/async_cache.hpp>
#include <gyre/sync/single_flight.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::redis::detail {

/// Whether the command reads one key, its first argument.
bool is_cacheable(std::string_view name) noexcept;

/// Keeps replies as they came, by key and then by command. A reply is kept within the callback that
/// receives it, so that a message about its key that comes later finds it.
///
/// Thread-safety: the loop's thread.
class reply_cache final : public invalidation_listener,
                          public std::enable_shared_from_this<reply_cache> {
 public:
  using reply_bytes = std::shared_ptr<const std::string>;

  reply_cache(event_loop& loop, const cache_options& options);
  ~reply_cache() override = default;

  template <class T, class Command>
  static task<T> read(std::shared_ptr<reply_cache> self, client_core::shared core, Command command);

  /// Keeps a reply, unless it is an error.
  void store(std::string_view key, std::string_view command, reply_bytes reply);
  void invalidate(reply_cursor keys) noexcept override;
  void clear() noexcept override { replies_.clear(); }
  cache_metrics metrics() const noexcept;

 private:
  struct stored_reply {
    std::string command;
    reply_bytes reply;
    steady_time expiry;
  };
  using replies_of_key = std::vector<stored_reply>;
  struct text_hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  static std::size_t weigh(const std::string& key, const replies_of_key& replies) noexcept;
  reply_bytes find(std::string_view key, std::string_view command);
  /// Sends a command, and keeps its reply; once for all callers.
  task<reply_bytes> fetch(client_core::shared core, std::string_view command);
  static task<reply_bytes> send(std::shared_ptr<reply_cache> self, client_core::shared core,
                                std::string command);

  event_loop& loop_;
  const duration max_age_;
  async_cache<std::string, replies_of_key, text_hash, std::equal_to<>> replies_;
  single_flight<std::string, reply_bytes> fetches_;
  io::buffer scratch_;  // a buffer for the command that is looked up
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
  std::uint64_t invalidations_ = 0;
};

[[noreturn, gnu::cold]] void throw_not_cacheable(std::string_view command);

template <class T, class Command>
task<T> reply_cache::read(std::shared_ptr<reply_cache> self, client_core::shared core,
                          Command command) {
  if (core == nullptr) throw_moved_from();
  if (!is_cacheable(command.name())) throw_not_cacheable(command.name());
  const task_context& context = co_await gyre::detail::this_context();
  core->check_context(context);
  self->scratch_.clear();
  command.write(self->scratch_);
  const std::string_view command_text = self->scratch_.text();
  argument_reader arguments(command_text);
  arguments.next();
  const std::string_view key = arguments.next().value_or("");
  reply_bytes bytes;
  if (core->is_ready()) bytes = self->find(key, command_text);
  if (bytes == nullptr) {
    ++self->misses_;
    task<reply_bytes> fetch_task = self->fetch(core, command_text);
    bytes = co_await std::move(fetch_task);
  } else {
    ++self->hits_;
  }
  reply_cursor values(*bytes);
  co_return read_reply<T>(values);
}

}  // namespace gyre::redis::detail
