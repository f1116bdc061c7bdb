// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/detail/reply_cache.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/engines/redis/error.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace gyre::redis::detail {
namespace {

// The memory of an entry besides the bytes of its key and its reply, rounded up.
constexpr std::size_t overhead = 256;
// The maximum number of replies, of different commands, for one key.
constexpr std::size_t max_replies_of_key = 64;

constexpr auto cacheable_commands = std::to_array<std::string_view>(
    {"BITCOUNT",    "BITPOS",        "GEODIST",  "GEOHASH",   "GEOPOS",         "GEOSEARCH",
     "GET",         "GETBIT",        "GETRANGE", "HEXISTS",   "HGET",           "HGETALL",
     "HKEYS",       "HLEN",          "HMGET",    "HSTRLEN",   "HVALS",          "JSON.GET",
     "LINDEX",      "LLEN",          "LPOS",     "LRANGE",    "SCARD",          "SISMEMBER",
     "SMEMBERS",    "SMISMEMBER",    "STRLEN",   "TYPE",      "XLEN",           "XRANGE",
     "XREVRANGE",   "ZCARD",         "ZCOUNT",   "ZLEXCOUNT", "ZMSCORE",        "ZRANGE",
     "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZRANK",    "ZREVRANGE", "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE",
     "ZREVRANK",    "ZSCORE"});

std::string_view key_of(std::string_view command) noexcept {
  argument_reader arguments(command);
  arguments.next();
  return arguments.next().value_or("");
}

/// A reply as it came, which is kept unless it is an error.
class cached_reply final : public awaited_reply {
 public:
  cached_reply(reply_cache& cache, std::string_view command,
               const queued_replies& caching_reply) noexcept
      : cache_(cache), command_(command), caching_reply_(caching_reply) {}

  reply_cache::reply_bytes take() {
    if (error()) std::rethrow_exception(error());
    return std::move(bytes_);
  }

 private:
  void read(std::string_view bytes) override {
    bytes_ = std::make_shared<const std::string>(bytes);
    const bool is_error = reply_cursor(bytes).peek().kind == reply_kind::error;
    if (!is_error && caching_reply_.error() == nullptr) {
      cache_.store(key_of(command_), command_, bytes_);
    }
  }

  reply_cache& cache_;
  const std::string_view command_;
  const queued_replies& caching_reply_;
  reply_cache::reply_bytes bytes_;
};

}  // namespace

bool is_cacheable(std::string_view name) noexcept {
  return std::ranges::any_of(cacheable_commands, [&](std::string_view command_name) {
    return gyre::detail::equals_ignoring_case(name, command_name);
  });
}

void throw_not_cacheable(std::string_view command) {
  throw std::system_error(make_error_code(errc::not_cacheable), std::string(command));
}

reply_cache::reply_cache(event_loop& loop, const cache_options& options)
    : loop_(loop),
      max_age_(options.max_age),
      replies_({.capacity = std::numeric_limits<std::size_t>::max(),
                .weight_limit = options.max_bytes,
                .weigher = &reply_cache::weigh}),
      fetches_(loop) {
  if (options.max_bytes == 0) {
    throw std::invalid_argument("gyre::redis::cached_client: max_bytes must be at least 1");
  }
  if (options.max_age <= duration::zero()) {
    throw std::invalid_argument("gyre::redis::cached_client: max_age must be above zero");
  }
}

std::size_t reply_cache::weigh(const std::string& key, const replies_of_key& replies) noexcept {
  std::size_t bytes = key.size() + overhead;
  for (const stored_reply& reply : replies) {
    bytes += reply.command.size() + reply.reply->size() + overhead;
  }
  return bytes;
}

reply_cache::reply_bytes reply_cache::find(std::string_view key, std::string_view command) {
  const std::shared_ptr<const replies_of_key> replies = replies_.try_get(key);
  if (replies == nullptr) return nullptr;
  const auto match = std::ranges::find(*replies, command, &stored_reply::command);
  return match != replies->end() && loop_.now() < match->expiry ? match->reply : nullptr;
}

void reply_cache::store(std::string_view key, std::string_view command, reply_bytes reply) {
  replies_of_key replies;
  if (const auto match = replies_.try_get(key)) replies = *match;
  std::erase_if(replies,
                [&](const stored_reply& old_reply) { return old_reply.command == command; });
  if (replies.size() >= max_replies_of_key) replies.erase(replies.begin());
  replies.push_back(
      {std::string(command), std::move(reply), gyre::detail::later(loop_.now(), max_age_)});
  replies_.put(std::string(key), std::move(replies));
}

void reply_cache::invalidate(reply_cursor keys) noexcept {
  const reply_node node = keys.next();
  if (node.kind == reply_kind::null) return clear();
  for (std::size_t elements_left = node.count; elements_left > 0 && node.kind == reply_kind::array;
       --elements_left) {
    const reply_node key = keys.peek();
    keys.skip();
    if (key.kind != reply_kind::text) continue;
    ++invalidations_;
    replies_.invalidate(key.text);
  }
}

cache_metrics reply_cache::metrics() const noexcept {
  return {.keys = replies_.size(),
          .bytes = replies_.weight(),
          .hits = hits_,
          .misses = misses_,
          .invalidations = invalidations_};
}

task<reply_cache::reply_bytes> reply_cache::fetch(client_core::shared core,
                                                  std::string_view command) {
  const auto self = shared_from_this();
  return fetches_.run(std::string(command),
                      [self, core](const std::string& key) { return send(self, core, key); });
}

task<reply_cache::reply_bytes> reply_cache::send(std::shared_ptr<reply_cache> self,
                                                 client_core::shared core, std::string command) {
  std::size_t attempts = core->max_attempts();
  for (;;) {
    if (!core->try_admit_here()) {
      task<> admission = core->admit();
      co_await std::move(admission);
    }
    queued_replies caching_reply;
    cached_reply reply(*self, command, caching_reply);
    const client_core::request_in_flight request(
        *core, reply,
        [&](io::buffer& output) {
          write_command(output, "CLIENT", "CACHING", "YES");
          output.append(std::string_view(command));
        },
        &caching_reply, 1);
    co_await reply.wait();
    if (reply.result() == awaited_reply::outcome::complete) co_return reply.take();
    core->prepare_retry(reply, attempts);
  }
}

}  // namespace gyre::redis::detail
