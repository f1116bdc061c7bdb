// SPDX-License-Identifier: Apache-2.0
// publish_consumed: how many tasks gyre's own inboxes have run, readable by any thread.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre::inbox::detail {

/// Tasks pushed and not yet run; zero if the two counts, read one after the other, cross.
constexpr std::size_t waiting(std::uint64_t pushed, std::uint64_t consumed) noexcept {
  return pushed > consumed ? static_cast<std::size_t>(pushed - consumed) : 0;
}

/// Publishes how many tasks the consumer has run when a scope ends, also by an exception.
class publish_consumed {
 public:
  publish_consumed(gyre::detail::atomic<std::uint64_t>& total, const batch& tasks) noexcept
      : total_(total), batch_(tasks), before_(tasks.ran()) {}
  publish_consumed(const publish_consumed&) = delete;
  publish_consumed& operator=(const publish_consumed&) = delete;
  ~publish_consumed() {
    // relaxed: a statistic that orders nothing.
    total_.store(total_.load(std::memory_order_relaxed) + (batch_.ran() - before_),
                 std::memory_order_relaxed);
  }

 private:
  gyre::detail::atomic<std::uint64_t>& total_;
  const batch& batch_;
  std::size_t before_;
};

}  // namespace gyre::inbox::detail
