// SPDX-License-Identifier: Apache-2.0
// Tests of the system calls for an answered message: one to receive it, unless the ring does, and
// one to send the answer.
#include <gyre/exec/loop.hpp>
#include <gyre/io/uring_support.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/system_call_faults.hpp>

#include <gtest/gtest.h>

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

namespace echo_calls_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::net::tcp_listener;
using gyre::net::tcp_server;
using gyre::net::tcp_stream;
using gyre::testing::calls_made;

enum class written_with { callbacks, coroutines };
enum class loop_that { only_looks, sleeps };

/// System calls of a thread.
struct calls {
  std::size_t received = calls_made("recv");
  std::size_t sent = calls_made("send");

  calls since(const calls& before) const {
    return {received - before.received, sent - before.sent};
  }
};

class EchoCalls : public testing::TestWithParam<std::tuple<written_with, std::size_t, loop_that>> {
 protected:
  void SetUp() override {
    if (written_with_callbacks()) {
      server_.emplace(loop_);
      server_->on_message([](gyre::net::tcp_connection& from, gyre::io::input& in) {
        from.send(in.bytes());
        in.consume_all();
      });
      server_->listen(any_port());
      server_->start();
    } else {
      listener_.emplace(loop_, any_port());
      gyre::spawn(loop_, accept_all());
    }
    for (std::size_t i = 0; i < connections(); ++i) {
      clients_.emplace_back(server_ ? server_->local_endpoint() : listener_->local_endpoint());
    }
  }
  void TearDown() override {
    for (peer& each : clients_) each.close();
    if (listener_) listener_->close();
    turn_until(loop_, [&] { return serving_ == 0; });
  }

  static bool written_with_callbacks() {
    return std::get<written_with>(GetParam()) == written_with::callbacks;
  }
  static std::size_t connections() { return std::get<std::size_t>(GetParam()); }
  static bool sleeps() { return std::get<loop_that>(GetParam()) == loop_that::sleeps; }
  std::size_t looks() const { return looks_; }
  bool on_uring() const { return std::string_view(loop_.metrics().io) == "uring"; }

  /// The calls of this thread while each client sends `messages`, each after the answer to the one
  /// before.
  calls calls_for(std::size_t messages) {
    const calls before;
    if (sleeps()) {
      const std::jthread other([&] {
        for (std::size_t i = 0; i < messages; ++i) {
          ask_all();
          for (const peer& each : clients_) take_answer(each);
        }
        loop_.stop();
      });
      loop_.run();
    } else {
      for (std::size_t i = 0; i < messages; ++i) {
        ask_all();
        for (const peer& each : clients_) {
          while (!is_answered(each, 0)) look();
          take_answer(each);
        }
        look();  // finds nothing
      }
    }
    const calls made = calls().since(before);
    loop_.restart();
    return made;
  }

 private:
  void look() {
    loop_.poll();
    ++looks_;
  }
  // Uses system calls that are not counted.
  void ask_all() const {
    for (const peer& each : clients_) EXPECT_EQ(::write(each.fd(), "message", 7), 7);
  }
  static bool is_answered(const peer& client, int timeout) {
    pollfd waiting{client.fd(), POLLIN, 0};
    return ::poll(&waiting, 1, timeout) == 1;
  }
  static void take_answer(const peer& client) {
    std::array<char, 64> answer{};
    EXPECT_TRUE(is_answered(client, 30'000));
    EXPECT_EQ(::read(client.fd(), answer.data(), answer.size()), 7);
  }

  task<> accept_all() {
    ++serving_;
    try {
      for (;;) {
        tcp_stream accepted = co_await listener_->accept();
        gyre::spawn(loop_, echo(std::move(accepted)));
      }
    } catch (const std::system_error&) {  // closed
    }
    --serving_;
  }
  task<> echo(tcp_stream peer) {
    ++serving_;
    for (;;) {
      auto came = co_await peer.receive();
      if (came.empty()) break;
      co_await peer.write_all(std::move(came));
    }
    --serving_;
  }

  gyre::loop loop_;
  std::optional<tcp_server> server_;
  std::optional<tcp_listener> listener_;
  std::deque<peer> clients_;
  int serving_ = 0;
  std::size_t looks_ = 0;
};

TEST_P(EchoCalls, AreNoMoreThanNeeded) {
  calls_for(3);
  const std::size_t messages = 200;
  const calls made = calls_for(messages);
  const std::size_t all = messages * connections();
  // A loop that runs again checks whether anything has arrived meanwhile.
  const std::size_t few = 2 * connections();
  EXPECT_GE(made.sent, all);
  EXPECT_LE(made.sent, all + few);
  const bool by_the_ring =
      on_uring() && written_with_callbacks() && gyre::io::probe_uring().features.multishot_receive;
  if (by_the_ring) {
    EXPECT_LE(made.received, few);
    return;
  }
  // A loop with a ring retries a read that did not fill its buffer once nothing has come for a
  // while (on a busy machine perhaps in each sleep) or, if the loop never sleeps, once in many
  // turns.
  const std::size_t tried = !on_uring() ? 0 : sleeps() ? all : looks() / 500 * connections();
  EXPECT_GE(made.received, all);
  EXPECT_LE(made.received, all + tried + few);
}

std::string name_of(const testing::TestParamInfo<EchoCalls::ParamType>& which) {
  const auto& [how, connections, loop] = which.param;
  return std::string(how == written_with::callbacks ? "Callbacks" : "Coroutines") + "Of" +
         std::to_string(connections) +
         (loop == loop_that::sleeps ? "ALoopThatSleeps" : "ALoopThatOnlyLooks");
}

INSTANTIATE_TEST_SUITE_P(
    , EchoCalls,
    testing::Combine(testing::Values(written_with::callbacks, written_with::coroutines),
                     testing::Values(std::size_t{1}, std::size_t{20}),
                     testing::Values(loop_that::only_looks, loop_that::sleeps)),
    name_of);

}  // namespace
}  // namespace echo_calls_test
