// SPDX-License-Identifier: Apache-2.0
// Tests of how a client divides its requests into sends, in virtual time.
#include <gyre/base/unique_fd.hpp>
#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nats_client_flights_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::nats::client;
using gyre::nats::message;
using gyre::net::tcp_stream;

constexpr std::size_t burst = 500;  // requests of about 100 bytes, so that 32 KiB hold some 330

// A client in virtual time, and a server that replies only when the test says so.
struct NatsFlights : testing::Test {
  gyre::test::io_in_virtual_time virtual_time;
  gyre::net::tcp_listener listener{virtual_time.loop,
                                   gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0)};
  client bus{virtual_time.loop, listener.local_endpoint().to_string(), nats_test::patient({})};
  tcp_stream peer;
  bool is_logged_in = false;
  std::string received;               // by the server
  std::vector<std::string> subjects;  // reply subjects of the requests in `received`
  std::size_t parsed = 0;
  std::size_t replies = 0;  // to the client's calls

  ~NatsFlights() override {
    bus.close();
    peer.close();
    virtual_time.settle();
  }

  void log_in() {
    gyre::spawn(virtual_time.loop, serve(*this));
    gyre::spawn(virtual_time.loop, connect(bus));
    virtual_time.turn_until([&] { return is_logged_in; });
    virtual_time.settle();
  }
  // The first request also subscribes, which does not wait.
  void log_in_and_subscribe() {
    log_in();
    request(1);
    virtual_time.turn_until([&] { return arrived() == 1; });
    reply();
    virtual_time.turn_until([&] { return std::exchange(replies, 0) == 1; });
  }
  void request(std::size_t count) {
    for (; count > 0; --count) gyre::spawn(virtual_time.loop, call(*this));
  }
  // Replies to all requests that have arrived.
  void reply() {
    std::string output;
    for (const std::string& each : std::exchange(subjects, {}))
      output += "MSG " + each + " 1 0\r\n\r\n";
    gyre::spawn(virtual_time.loop, write(peer, std::move(output)));
  }
  // Turns the loop until nothing happens at this time, and returns the requests that have arrived.
  std::size_t arrived() {
    virtual_time.settle();
    return subjects.size();
  }

 private:
  static task<> connect(client& bus) { co_await bus.connect(); }
  static task<> call(NatsFlights& test) {
    const std::string body(40, 'x');
    try {
      const message reply = co_await test.bus.request("service", body);
      ++test.replies;
    } catch (const std::system_error&) {
      // A call that waits when its client is closed fails.
    }
  }
  static task<> write(tcp_stream& sink, std::string text) { co_await sink.write_all(text); }
  static task<> serve(NatsFlights& test) {
    test.peer = co_await test.listener.accept();
    co_await test.peer.write_all("INFO {\"max_payload\":1000}\r\n");
    for (;;) {
      const auto bytes = co_await gyre::as_expected(test.peer.receive());
      if (!bytes || bytes->empty()) co_return;
      test.received.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
      if (!test.is_logged_in && test.received.ends_with("PING\r\n")) {
        co_await test.peer.write_all("PONG\r\n");
        test.is_logged_in = true;
      }
      test.parse();
    }
  }
  void parse() {
    constexpr std::string_view line = "PUB service ";
    for (;;) {
      const std::size_t begin = received.find(line, parsed);
      if (begin == std::string::npos) return;
      const std::size_t end = received.find("x\r\n", begin);
      if (end == std::string::npos) return;
      const std::size_t subject = begin + line.size();
      subjects.push_back(received.substr(subject, received.find(' ', subject) - subject));
      parsed = end;
    }
  }
};

std::size_t sends() {
  return gyre::testing::calls_made("send") + gyre::testing::calls_made("sendmsg");
}

TEST_F(NatsFlights, SendsCallsThatHaveWaitedForTheLoginTogether) {
  request(1000);
  const std::size_t before = sends();
  log_in();
  virtual_time.turn_until([&] { return arrived() == 1000 || (virtual_time.advance(1ms), false); });
  EXPECT_GT(sends(), before);
  EXPECT_LT(sends() - before, 20U);  // 100 KB, and the login of both sides
}

TEST_F(NatsFlights, HoldsTheRestOfAFlightWhileRepliesAreDue) {
  log_in_and_subscribe();
  request(burst);
  const std::size_t first = arrived();
  EXPECT_GT(first, burst / 2);
  EXPECT_LT(first, burst);
  virtual_time.advance(300us);
  EXPECT_EQ(arrived(), first);
  request(1);
  EXPECT_EQ(arrived(), first);
  virtual_time.advance(110us);  // the delay, and the timers' tick
  EXPECT_EQ(arrived(), burst + 1);
}

TEST_F(NatsFlights, SendsTheRestWhenItHasGrownToAFlight) {
  log_in_and_subscribe();
  request(burst);
  const std::size_t first = arrived();
  request(first);
  EXPECT_GT(arrived(), first + burst / 2);
}

TEST_F(NatsFlights, SendsTheRestWhenNoOtherReplyIsDue) {
  log_in_and_subscribe();
  request(burst);
  const std::size_t first = arrived();
  ASSERT_LT(first, burst);
  reply();
  virtual_time.turn_until([&] { return arrived() == burst - first; });
  EXPECT_EQ(replies, first);
}

TEST_F(NatsFlights, OtherOutputEndsTheWaiting) {
  log_in_and_subscribe();
  request(burst);
  ASSERT_LT(arrived(), burst);
  virtual_time.loop.post([this] { EXPECT_TRUE(bus.try_publish("news", "today")); });
  EXPECT_EQ(arrived(), burst);
  EXPECT_TRUE(received.ends_with("PUB news 5\r\ntoday\r\n"));
}

TEST_F(NatsFlights, RequestsWithoutAFullFlightDoNotWait) {
  log_in_and_subscribe();
  request(100);
  EXPECT_EQ(arrived(), 100U);
  request(1);
  EXPECT_EQ(arrived(), 101U);
}

TEST_F(NatsFlights, TheWaitingEndsWithTheLoad) {
  log_in_and_subscribe();
  request(burst);
  ASSERT_LT(arrived(), burst);
  virtual_time.advance(410us);
  EXPECT_EQ(arrived(), burst);
  request(1);
  EXPECT_EQ(arrived(), burst + 1);
}

}  // namespace
}  // namespace nats_client_flights_test
