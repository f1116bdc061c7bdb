// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/broadcast.hpp>

#include <gyre/sync/channel.hpp>
#include <gyre/sync/select.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/manual_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace broadcast_test {
namespace {

using gyre::broadcast;
using gyre::broadcast_receiver;
using gyre::broadcast_value;
using gyre::channel_status;
using gyre::task;
using gyre::testing::manual_executor;
using testing::ElementsAre;

// Records values as they arrive, gaps as minus the number of missed values, and the end as 0.
task<> receive_all(broadcast_receiver<int> from, std::vector<int>& noted) {
  while (std::optional<broadcast_value<int>> next = co_await from.receive()) {
    if (next->missed != 0) noted.push_back(-static_cast<int>(next->missed));
    noted.push_back(next->value);
  }
  noted.push_back(0);
}

TEST(Broadcast, EveryReceiverSeesAllSinceItSubscribed) {
  broadcast<int> numbers(8);
  broadcast_receiver<int> early = numbers.subscribe();
  numbers.send(1);
  broadcast_receiver<int> late = numbers.subscribe();
  numbers.send(2);
  EXPECT_EQ(early.pending(), 2U);
  EXPECT_EQ(late.pending(), 1U);
  EXPECT_EQ(early.try_receive()->value, 1);
  broadcast_receiver<int> copy = early;
  EXPECT_EQ(early.try_receive()->value, 2);
  EXPECT_EQ(late.try_receive()->value, 2);
  EXPECT_EQ(copy.try_receive()->value, 2);
  EXPECT_EQ(early.try_receive().error(), channel_status::empty);
}

TEST(Broadcast, ReceiversThatWaitAreAllWoken) {
  manual_executor executor;
  broadcast<int> numbers(8);
  std::array<std::vector<int>, 3> noted;
  for (auto& each : noted) gyre::spawn(executor, receive_all(numbers.subscribe(), each));
  executor.run_all();
  numbers.send(1);
  numbers.send(2);
  executor.run_all();
  numbers.send(3);
  numbers.close();
  executor.run_all();
  for (auto& each : noted) EXPECT_THAT(each, ElementsAre(1, 2, 3, 0));
}

TEST(Broadcast, LaggingSubscriberIsToldHowManyValuesItMissed) {
  broadcast<int> numbers(2);
  broadcast_receiver<int> slow = numbers.subscribe();
  numbers.send(1);
  EXPECT_EQ(slow.try_receive()->missed, 0U);
  for (int i = 2; i <= 6; ++i) numbers.send(i);
  const auto next = slow.try_receive();
  EXPECT_EQ(next->value, 5);
  EXPECT_EQ(next->missed, 3U);
  EXPECT_EQ(slow.try_receive()->missed, 0U);

  std::vector<int> noted;
  for (int i = 7; i <= 10; ++i) numbers.send(i);
  numbers.close();
  gyre::sync_wait(receive_all(slow, noted));
  EXPECT_THAT(noted, ElementsAre(-2, 9, 10, 0));
}

TEST(Broadcast, ClosedRefusesAndDrains) {
  broadcast<std::unique_ptr<int>*> closed(1);
  closed.close();
  closed.close();
  EXPECT_TRUE(closed.closed());
  EXPECT_EQ(closed.try_send(nullptr), channel_status::closed);
  EXPECT_THROW(closed.send(nullptr), std::system_error);
  EXPECT_EQ(closed.subscribe().try_receive().error(), channel_status::closed);
}

TEST(Broadcast, CancelledReceivePassesOverNothing) {
  manual_executor executor;
  broadcast<int> numbers(2);
  broadcast_receiver<int> receiver = numbers.subscribe();
  gyre::inplace_stop_source source;
  bool cancelled = false;
  const auto wait = [&]() -> task<> {
    try {
      co_await receiver.receive();
    } catch (const gyre::operation_cancelled&) {
      cancelled = true;
    }
  };
  gyre::spawn(executor, wait(), {.stop = source.get_token()});
  executor.run_all();
  source.request_stop();
  numbers.send(1);
  executor.run_all();
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(receiver.try_receive()->value, 1);
}

TEST(Broadcast, ValueThatCouldNotBeCopiedIsStillThere) {
  struct fragile {
    fragile() = default;
    fragile(const fragile& other) : fails(other.fails) {
      if (fails != nullptr && (*fails)-- > 0) throw std::runtime_error("no copy");
    }
    fragile(fragile&&) noexcept = default;
    int* fails = nullptr;
  };
  int fails = 0;
  broadcast<fragile> values(1);
  broadcast_receiver<fragile> receiver = values.subscribe();
  fragile value;
  value.fails = &fails;
  values.send(std::move(value));
  fails = 1;
  EXPECT_THROW(gyre::sync_wait(receiver.receive()), std::runtime_error);
  EXPECT_TRUE(gyre::sync_wait(receiver.receive()).has_value());
}

TEST(Broadcast, CanBeSelected) {
  manual_executor executor;
  broadcast<std::string> words(2);
  broadcast_receiver<std::string> receiver = words.subscribe();
  gyre::channel<int> numbers(1);
  std::vector<std::string> got;
  const auto choose = [&]() -> task<> {
    for (;;) {
      auto chosen = co_await gyre::select(gyre::on_receive(receiver), gyre::on_receive(numbers));
      if (chosen.index() == 1) co_return;
      got.push_back(std::get<0>(chosen)->value);
    }
  };
  gyre::spawn(executor, choose());
  executor.run_all();
  words.send("one");
  executor.run_all();
  words.send("two");
  EXPECT_EQ(numbers.try_send(1), channel_status::ok);
  EXPECT_EQ(numbers.size(), 1U) << "the select has ended";
  executor.run_all();
  EXPECT_THAT(got, ElementsAre("one", "two"));
  EXPECT_EQ(numbers.size(), 0U);
}

TEST(Broadcast, SeveralThreadsSendAndReceive) {
  constexpr int each = 5000;
  broadcast<int> numbers(16);
  std::array<std::uint64_t, 2> seen{};
  const auto count = [](broadcast_receiver<int> from, std::uint64_t& sum) -> task<> {
    while (std::optional<broadcast_value<int>> next = co_await from.receive()) {
      sum += 1 + next->missed;
    }
  };
  {
    std::array<broadcast_receiver<int>, 2> receivers{numbers.subscribe(), numbers.subscribe()};
    const std::jthread one([&] { gyre::sync_wait(count(receivers[0], seen[0])); });
    const std::jthread other([&] { gyre::sync_wait(count(receivers[1], seen[1])); });
    const auto send = [&] {
      for (int i = 0; i < each; ++i) numbers.send(i);
    };
    std::jthread there(send);
    send();
    there.join();
    numbers.close();
  }
  EXPECT_THAT(seen, ElementsAre(2 * each, 2 * each)) << "received or known to be missed";
}

}  // namespace
}  // namespace broadcast_test
