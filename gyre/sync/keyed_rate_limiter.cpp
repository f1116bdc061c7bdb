// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/keyed_rate_limiter.hpp>

#include <gyre/base/detail/duration_check.hpp>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace gyre {
namespace {

// The longest time in which a bucket fills: it can be added to the time since boot.
constexpr std::int64_t max_fill_time = duration(std::chrono::years{100}).count();

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("gyre::keyed_rate_limiter: " + reason);
}

detail::token_rate checked_rate(const keyed_rate_limiter_options& options) {
  detail::require_positive(options.per, "gyre::keyed_rate_limiter: per");
  if (options.tokens == 0) refuse("tokens must be positive");
  if (options.burst == 0) refuse("burst must be positive");
  if (options.capacity == 0 || options.capacity > std::size_t{1} << 32U) {
    refuse("capacity must be from 1 to 2^32");
  }
  const auto period = static_cast<std::uint64_t>(options.per.count());
  const auto cost = static_cast<std::int64_t>(period / options.tokens);
  if (cost == 0) refuse("at most one token for each nanosecond is possible");
  if (options.burst > static_cast<std::uint64_t>(max_fill_time / cost)) {
    refuse("burst takes longer than 100 years to come");
  }
  return {cost, cost * static_cast<std::int64_t>(options.burst)};
}

}  // namespace

keyed_rate_limiter::keyed_rate_limiter(keyed_rate_limiter_options options)
    : burst_(options.burst),
      rate_(checked_rate(options)),
      hash_(detail::siphash::random_key()),
      parts_(std::make_unique<part[]>(part_count)),
      sets_per_part_(
          std::max<std::size_t>(std::bit_ceil(options.capacity) / (part_count * ways), 1)) {
  for (std::size_t i = 0; i < part_count; ++i) parts_[i].sets.resize(sets_per_part_);
}

keyed_rate_limiter::decision keyed_rate_limiter::try_acquire(std::span<const std::byte> key,
                                                             time_point now, std::uint64_t tokens) {
  const std::uint64_t hash = hash_(key);
  part& owner = parts_[hash % part_count];
  const std::int64_t time = now.time_since_epoch().count();
  const std::lock_guard lock(owner.mutex);
  set& candidates = owner.sets[hash / part_count % sets_per_part_];
  entry& bucket = find_or_replace(candidates, hash, time, owner.counts.forgotten);
  const decision result = decide(bucket, time, tokens);
  ++(result.is_allowed ? owner.counts.allowed : owner.counts.refused);
  return result;
}

// Returns the entry of `hash`, which replaces the entry with the fullest bucket if it is new.
keyed_rate_limiter::entry& keyed_rate_limiter::find_or_replace(
    set& candidates, std::uint64_t hash, std::int64_t now,
    std::uint64_t& forgotten_count) noexcept {
  entry* result = candidates.data();
  for (entry& candidate : candidates) {
    if (candidate.hash == hash) return candidate;
    if (candidate.full_at < result->full_at) result = &candidate;
  }
  if (result->full_at > now) ++forgotten_count;
  *result = {.hash = hash};
  return *result;
}

keyed_rate_limiter::decision keyed_rate_limiter::decide(entry& bucket, std::int64_t now,
                                                        std::uint64_t tokens) const noexcept {
  if (tokens > burst_) return {false, rate_.tokens(bucket.full_at, now), duration::max()};
  const std::int64_t wait = rate_.take(bucket.full_at, now, tokens);
  return {wait == 0, rate_.tokens(bucket.full_at, now), std::chrono::nanoseconds(wait)};
}

std::size_t keyed_rate_limiter::capacity() const noexcept {
  return part_count * sets_per_part_ * ways;
}

keyed_rate_limiter_metrics keyed_rate_limiter::metrics() const {
  keyed_rate_limiter_metrics sum;
  for (std::size_t i = 0; i < part_count; ++i) {
    const std::lock_guard lock(parts_[i].mutex);
    sum.allowed += parts_[i].counts.allowed;
    sum.refused += parts_[i].counts.refused;
    sum.forgotten += parts_[i].counts.forgotten;
  }
  return sum;
}

}  // namespace gyre
