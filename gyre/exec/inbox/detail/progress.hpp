// SPDX-License-Identifier: Apache-2.0
// How far our own inboxes have come, counted so that any thread may ask.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gyre/base/atomic.hpp>
#include <gyre/exec/inbox/inbox.hpp>

namespace gyre::inbox::detail {

/// Tasks pushed and not yet taken; none where the two counts, read one after the other, cross.
constexpr std::size_t waiting(std::uint64_t pushed, std::uint64_t consumed) noexcept {
  return pushed > consumed ? static_cast<std::size_t>(pushed - consumed) : 0;
}

/// Publishes how many tasks the consumer has taken when it goes out of scope, also by an exception.
class publish_consumed {
 public:
  publish_consumed(gyre::detail::atomic<std::uint64_t>& total, const batch& some) noexcept
      : total_(total), batch_(some), before_(some.ran()) {}
  publish_consumed(const publish_consumed&) = delete;
  publish_consumed& operator=(const publish_consumed&) = delete;
  ~publish_consumed() {
    // relaxed: a statistic; nobody reads a task through it.
    total_.store(total_.load(std::memory_order_relaxed) + (batch_.ran() - before_),
                 std::memory_order_relaxed);
  }

 private:
  gyre::detail::atomic<std::uint64_t>& total_;
  const batch& batch_;
  std::size_t before_;
};

}  // namespace gyre::inbox::detail
