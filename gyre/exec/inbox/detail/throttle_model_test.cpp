// SPDX-License-Identifier: Apache-2.0
//
// Model tests of the throttle: a producer that sleeps is woken, here without max_sleep, by a
// consumer that catches up and then falls asleep itself.
//
// Mutations, tried by hand one at a time, and the tests that fail:
//   slow_down() reads the backlog once, before it sets the bit: both
//   slow_down() has no full fence: both
//   the consumer asks without a full fence before it sleeps: both
//   wake_producers() stores `seen` instead of its successor: both
#include <gyre/exec/inbox/detail/throttle.hpp>

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/futex.hpp>
#include <gyre/base/fence.hpp>
#include <tests/model/model.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

// futex(2) in the model: the sleeper polls the word, so a wake-up needs no call.
namespace gyre::detail {
void futex_wait_until(const atomic<std::uint32_t>& word, std::uint32_t expected,
                      steady_time /*deadline*/) noexcept {
  sleep_while(word, expected);
}
void futex_wake_all(const atomic<std::uint32_t>* /*word*/) noexcept {}
}  // namespace gyre::detail

namespace {

namespace model = gyre::model;
using gyre::inbox::detail::throttle;

// An inbox reduced to its counts. Two tasks wait, and more than one is too many.
struct counts {
  std::size_t pending() const { return pushed - consumed.load(std::memory_order_relaxed); }
  void produce() {
    slowed.slow_down([this] { return pending(); });
  }
  // Runs all tasks one by one and then falls asleep, as a loop does.
  void consume() {
    for (std::size_t ran = 1; ran <= pushed; ++ran) {
      consumed.store(ran, std::memory_order_relaxed);
      wake();
    }
    gyre::detail::full_fence();
    wake();
  }
  void wake() {
    slowed.wake_producers([this] { return pending(); });
  }

  const std::size_t pushed = 2;
  gyre::detail::atomic<std::size_t> consumed{0};
  throttle slowed{1};
};

TEST(InboxThrottleModel, AProducerThatSleepsIsWoken) {
  const auto checked = model::check({}, [] {
    counts inbox;
    inbox.slowed.register_consumer();
    model::thread producer([&] { inbox.produce(); });
    inbox.consume();
    producer.join();
  });
  EXPECT_TRUE(checked) << checked;
}

TEST(InboxThrottleModel, AllProducersThatSleepAreWoken) {
  const auto checked = model::check({}, [] {
    counts inbox;
    inbox.slowed.register_consumer();
    model::thread one([&] { inbox.produce(); });
    model::thread other([&] { inbox.produce(); });
    inbox.consume();
    one.join();
    other.join();
  });
  EXPECT_TRUE(checked) << checked;
}

}  // namespace
