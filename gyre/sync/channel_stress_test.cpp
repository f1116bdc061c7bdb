// SPDX-License-Identifier: Apache-2.0
// Stress tests of channels between threads: no value is lost or duplicated, even if operations are
// cancelled or channels closed meanwhile. Mainly for ThreadSanitizer.
#include <gyre/sync/channel.hpp>
#include <gyre/sync/select.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_any.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace channel_stress_test {
namespace {

using gyre::channel;
using gyre::channel_status;
using gyre::inplace_stop_source;
using gyre::task;
using gyre::unbounded_channel;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;

// A value is on the heap, so that sanitizers, too, find values that are lost or taken twice.
using value = std::unique_ptr<int>;

// Counts the values that passed through a channel.
struct tally {
  std::atomic<int> sent{0};
  std::atomic<int> received{0};
  std::atomic<long> sent_sum{0};
  std::atomic<long> received_sum{0};

  void note_sent(int number) { ++sent, sent_sum += number; }
  void note_received(int number) { ++received, received_sum += number; }
  void expect_nothing_lost() const {
    EXPECT_EQ(sent, received);
    EXPECT_EQ(sent_sum, received_sum);
  }
};

// Tells the last of several threads that it is the last.
class countdown {
 public:
  explicit countdown(int from) : left_(from) {}
  bool arrive() {
    const bool last = left_.fetch_sub(1) == 1;
    if (last) left_.notify_all();
    return last;
  }
  void wait() const {
    for (int left = left_; left != 0; left = left_) left_.wait(left);
  }

 private:
  std::atomic<int> left_;
};

class ChannelStress : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Capacity, ChannelStress, testing::Values(0, 1, 3, 64));

TEST_P(ChannelStress, EveryValueArrivesOnceAndInTheOrderOfItsSender) {
  constexpr int each = 2000;
  constexpr std::size_t pairs = 2;
  channel<std::pair<int, value>> values(GetParam());
  tally count;
  countdown senders(pairs);
  countdown ended(2 * pairs);
  std::array<thread_executor, 2 * pairs> threads;

  const auto send = [&](int sender) -> task<> {
    for (int i = 0; i < each; ++i) {
      std::pair<int, value> next(sender, std::make_unique<int>(i));
      co_await values.send(std::move(next));
      count.note_sent(i);
    }
    if (senders.arrive()) values.close();
    ended.arrive();
  };
  const auto receive = [&]() -> task<> {
    std::array<int, pairs> newest;
    newest.fill(-1);
    while (std::optional<std::pair<int, value>> next = co_await values.receive()) {
      const auto sender = static_cast<std::size_t>(next->first);
      EXPECT_LT(newest.at(sender), *next->second);
      newest.at(sender) = *next->second;
      count.note_received(*next->second);
    }
    ended.arrive();
  };
  for (std::size_t i = 0; i < pairs; ++i) {
    gyre::spawn(threads.at(2 * i), send(static_cast<int>(i)));
    gyre::spawn(threads.at(2 * i + 1), receive());
  }
  ended.wait();
  count.expect_nothing_lost();
}

// Receives one value, or is cancelled.
task<> receive_or_give_up(channel<value>& from, tally& count, bool& open) {
  try {
    std::optional<value> next = co_await from.receive();
    open = next.has_value();
    if (open) count.note_received(**next);
  } catch (const gyre::operation_cancelled&) {  // gave up
  }
}

task<> send_or_give_up(channel<value>& to, tally& count, int number, bool& done) {
  value next = std::make_unique<int>(number);
  try {
    co_await to.send_from(next);
    EXPECT_EQ(next, nullptr);
    count.note_sent(number);
    done = true;
  } catch (const gyre::operation_cancelled&) {
    EXPECT_NE(next, nullptr);
  }
}

// A thread that keeps requesting the stop of running operations.
class canceller {
 public:
  // Runs `operation` with a token whose stop is requested at some moment.
  template <class Operation>
  void run(Operation&& operation) {
    auto& source = sources_.emplace_back();
    newest_.store(&source);
    operation(source.get_token());
  }

 private:
  std::deque<inplace_stop_source> sources_;
  std::atomic<inplace_stop_source*> newest_{nullptr};
  std::jthread thread_{[this](const std::stop_token& ended) {
    while (!ended.stop_requested()) {
      if (inplace_stop_source* const source = newest_.exchange(nullptr)) source->request_stop();
    }
  }};
};

TEST_P(ChannelStress, CancelledAndCompletedAtOnce) {
  constexpr int numbers = 2000;
  channel<value> values(GetParam());
  tally count;
  std::jthread sender([&] {
    canceller stop;
    for (int i = 0; i < numbers; ++i) {
      for (bool done = false; !done;) {
        stop.run([&](gyre::inplace_stop_token token) {
          gyre::sync_wait(send_or_give_up(values, count, i, done), token);
        });
      }
    }
    values.close();
  });
  canceller stop;
  for (bool open = true; open;) {
    stop.run([&](gyre::inplace_stop_token token) {
      gyre::sync_wait(receive_or_give_up(values, count, open), token);
    });
  }
  EXPECT_EQ(count.received, numbers);
  sender.join();
  count.expect_nothing_lost();
}

// A receive races with an operation that always ends at once, in both forms of when_any.
TEST_P(ChannelStress, NothingIsLostWhereAReceiveIsRaced) {
  constexpr int numbers = 5000;
  channel<value> values(GetParam());
  tally count;
  int races_lost = 0;
  const auto send = [&]() -> task<> {
    for (int i = 0; i < numbers; ++i) {
      co_await values.send(std::make_unique<int>(i));
      count.note_sent(i);
    }
    values.close();
  };
  const auto give_up = []() -> task<std::optional<value>> {
    co_await gyre::yield();
    co_return std::nullopt;
  };
  const auto receive = [&]() -> task<> {
    for (bool open = true; open;) {
      std::optional<std::optional<value>> next;
      std::size_t first = 0;
      if (count.received % 2 == 0) {
        auto ended = co_await gyre::when_any(values.receive(), give_up());
        next = std::move(std::get<0>(ended.values));
        first = ended.index;
      } else {
        std::vector<task<std::optional<value>>> racers;
        racers.push_back(gyre::as_task(values.receive()));
        racers.push_back(give_up());
        auto ended = co_await gyre::when_any(std::move(racers));
        next = std::move(ended.values.front());
        first = ended.index;
      }
      if (!next) continue;
      open = next->has_value();
      if (open) count.note_received(***next);
      if (first != 0) ++races_lost;
    }
  };
  std::jthread sender([&] { gyre::sync_wait(send()); });
  gyre::sync_wait(receive());
  sender.join();
  EXPECT_EQ(count.received, numbers);
  count.expect_nothing_lost();
  RecordProperty("races_lost", races_lost);
}

TEST_P(ChannelStress, ClosedWhileWaitedFor) {
  for (int round = 0; round < unless_sanitized(200, 4); ++round) {
    channel<value> values(GetParam());
    tally count;
    const auto send = [&]() -> task<> {
      try {
        for (int i = 0;; ++i) {
          value next = std::make_unique<int>(i);
          co_await values.send_from(next);
          count.note_sent(i);
        }
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), std::errc::broken_pipe);
      }
    };
    const auto receive = [&]() -> task<> {
      while (std::optional<value> next = co_await values.receive()) count.note_received(**next);
    };
    {
      const std::jthread sender([&] { gyre::sync_wait(send()); });
      const std::jthread receiver([&] { gyre::sync_wait(receive()); });
      const std::jthread closer([&] {
        while (count.received < 10) std::this_thread::yield();
        values.close();
      });
    }
    count.expect_nothing_lost();
  }
}

// Every thread selects among the same channels, to send into some and receive from others.
TEST_P(ChannelStress, SelectsThatServeEachOther) {
  constexpr int rounds = 2000;
  channel<value> one(GetParam());
  channel<value> other(GetParam());
  tally count;
  countdown trading(2);
  const auto trade = [&](channel<value>& in, channel<value>& out) -> task<> {
    for (int i = 0; i < rounds; ++i) {
      value next = std::make_unique<int>(i);
      while (next != nullptr) {
        auto chosen = co_await gyre::select(gyre::on_receive(in), gyre::on_send_from(out, next));
        if (chosen.index() == 1) {
          EXPECT_EQ(next, nullptr);
          count.note_sent(i);
        } else {
          EXPECT_NE(next, nullptr);
          count.note_received(**std::get<0>(chosen));
        }
      }
    }
    if (trading.arrive()) {
      one.close();
      other.close();
    }
    while (std::optional<value> left = co_await in.receive()) count.note_received(**left);
  };
  {
    const std::jthread here([&] { gyre::sync_wait(trade(one, other)); });
    const std::jthread there([&] { gyre::sync_wait(trade(other, one)); });
  }
  count.expect_nothing_lost();
}

TEST_P(ChannelStress, SelectsCancelledAndCompletedAtOnce) {
  constexpr int numbers = 1000;
  std::array<channel<value>, 2> values{channel<value>(GetParam()), channel<value>(GetParam())};
  tally count;
  std::atomic<bool> over{false};
  const auto choose = [&]() -> task<> {
    try {
      auto chosen = co_await gyre::select(gyre::on_receive(values[0]), gyre::on_receive(values[1]));
      const auto note = [&](std::optional<value>& next) {
        if (next) {
          count.note_received(**next);
        } else {
          over = true;
        }
      };
      std::visit(note, chosen);
    } catch (const gyre::operation_cancelled&) {  // gave up
    }
  };
  {
    const std::jthread receiver([&] {
      canceller stop;
      while (!over) {
        stop.run([&](gyre::inplace_stop_token token) { gyre::sync_wait(choose(), token); });
      }
    });
    const auto send = [&](channel<value>& to) -> task<> {
      for (int i = 0; i < numbers; ++i) {
        co_await to.send(std::make_unique<int>(i));
        count.note_sent(i);
      }
    };
    const std::jthread first([&] { gyre::sync_wait(send(values[0])); });
    gyre::sync_wait(send(values[1]));
    while (count.received < 2 * numbers) std::this_thread::yield();
    values[0].close();
  }
  EXPECT_EQ(count.received, 2 * numbers);
  count.expect_nothing_lost();
}

TEST(UnboundedChannelStress, EveryValueArrivesOnce) {
  constexpr int each = 20'000;
  unbounded_channel<value> values;
  tally count;
  const auto receive = [&]() -> task<> {
    while (std::optional<value> next = co_await values.receive()) count.note_received(**next);
  };
  const auto send = [&] {
    for (int i = 0; i < each; ++i) {
      count.note_sent(i);
      values.send(std::make_unique<int>(i));
    }
  };
  std::thread one([&] { gyre::sync_wait(receive()); });
  std::thread other([&] { gyre::sync_wait(receive()); });
  std::thread sender(send);
  send();
  sender.join();
  values.close();
  one.join();
  other.join();
  count.expect_nothing_lost();
}

}  // namespace
}  // namespace channel_stress_test
