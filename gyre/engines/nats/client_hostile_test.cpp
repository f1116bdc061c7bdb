// SPDX-License-Identifier: Apache-2.0
// NATS clients at servers that break the protocol, or do not follow it to the end.
#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/support/failed_call.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace nats_client_hostile_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::nats::client;
using gyre::nats::client_options;
using gyre::nats::errc;
using gyre::nats::subscription;
using gyre::net::tcp_stream;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using nats_test::text_of;
using testing::HasSubstr;

constexpr const char* info = "INFO {\"max_payload\":1000,\"headers\":true}\r\n";

// A loop, and a socket that a test serves as it likes.
struct NatsHostile : testing::Test {
  gyre::loop loop;
  gyre::net::tcp_listener listener{loop,
                                   gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0)};

  void run(task<> test) { gyre::sync_wait(loop, gyre::with_timeout(std::move(test), 250s)); }
  client connect(client_options options = {}) {
    options.max_connect_attempts = 1;
    return client(loop, listener.local_endpoint().to_string(), nats_test::patient(options));
  }
  // A connection that has sent `text` and closes when the client does.
  task<> serve(std::string text) {
    tcp_stream peer = co_await listener.accept();
    static_cast<void>(co_await gyre::as_expected(peer.write_all(text)));
    co_await wait_for_end(std::move(peer));
  }
  // A connection that is logged in, and has sent `text`.
  task<tcp_stream> log_in(std::string text = "") {
    tcp_stream peer = co_await listener.accept();
    co_await peer.write_all(info);
    gyre::io::buffer input;
    const std::size_t size = co_await peer.read_until(input, "PING\r\n");
    static_cast<void>(size);
    co_await peer.write_all("PONG\r\n" + text);
    co_return peer;
  }
  static task<> wait_for_end(tcp_stream peer) {
    for (;;) {
      const auto bytes = co_await gyre::as_expected(peer.receive());
      if (!bytes || bytes->empty()) co_return;
    }
  }
  task<> serve_login(std::string text) {
    tcp_stream peer = co_await log_in(std::move(text));
    co_await wait_for_end(std::move(peer));
  }
};

TEST_F(NatsHostile, RefusesWhatIsNoLogin) {
  run([](NatsHostile& test) -> task<> {
    const std::string login = info;
    for (const std::string& text :
         {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("SSH-2.0-x\r\n"),
          std::string("INFO {\r\n"), std::string("INFO []\r\n"), std::string("INFO\r\n"),
          std::string(10'000, 'x'), std::string("INFO ") + std::string(70'000, ' '),
          login + "MSG a 1 1\r\nx\r\n", login + "\r\n", std::string("PONG\r\n")}) {
      client bus = test.connect();
      const auto [error, served] =
          co_await gyre::when_all(error_of(bus.connect()), test.serve(text));
      EXPECT_EQ(error, errc::bad_message) << text.substr(0, 50);
    }
  }(*this));
}

TEST_F(NatsHostile, LimitsTheTimeOfTheLogin) {
  run([](NatsHostile& test) -> task<> {
    for (const std::string& text : {std::string(), std::string("INFO {"), std::string(info)}) {
      client bus = test.connect({.connect_timeout = 20ms});
      const auto [error, served] =
          co_await gyre::when_all(error_of(bus.connect()), test.serve(text));
      EXPECT_EQ(error, std::errc::timed_out) << text;
    }
  }(*this));
}

TEST_F(NatsHostile, TellsWhyTheServerRefusesTheLogin) {
  run([](NatsHostile& test) -> task<> {
    client bus = test.connect();
    const std::string text = std::string(info) + "-ERR 'Maximum Connections Exceeded'\r\n";
    const auto [message, served] =
        co_await gyre::when_all(message_of(bus.connect()), test.serve(text));
    EXPECT_THAT(message, HasSubstr("Maximum Connections Exceeded"));
    const auto [error, again] = co_await gyre::when_all(error_of(bus.connect()), test.serve(text));
    EXPECT_EQ(error, errc::limit_exceeded);
  }(*this));
}

TEST_F(NatsHostile, EndsAConnectionThatBreaksTheProtocol) {
  run([](NatsHostile& test) -> task<> {
    for (const std::string text : {"junk\r\n", "MSG a 1 5\r\nhello", "MSG a 1 99999999999\r\n",
                                   "INFO x\r\n", "MSG a 1 2\r\nxxxx\r\n"}) {
      client bus = test.connect();
      auto flush = [](NatsHostile& fixture, client& target, std::string_view bytes) -> task<> {
        tcp_stream peer = co_await fixture.log_in();
        gyre::io::buffer input;
        const std::size_t size = co_await peer.read_until(input, "PING\r\n");
        static_cast<void>(size);
        co_await peer.write_all(bytes);
        // A connection that ends within a message is lost.
        if (bytes.ends_with("hello")) {
          peer.close();
          co_return;
        }
        co_await wait_for_end(std::move(peer));
        target.close();
      };
      const auto [error, flushed] =
          co_await gyre::when_all(error_of(bus.flush()), flush(test, bus, text));
      const bool is_large = text.ends_with("99999999999\r\n");
      const errc expected = text.ends_with("hello") ? errc::connection_lost
                            : is_large              ? errc::message_too_large
                                                    : errc::bad_message;
      EXPECT_EQ(error, expected) << text;
    }
  }(*this));
}

TEST_F(NatsHostile, IgnoresMessagesThatNobodyWants) {
  run([](NatsHostile& test) -> task<> {
    client bus = test.connect();
    auto serve = [](NatsHostile& fixture) -> task<> {
      tcp_stream peer = co_await fixture.log_in(
          "MSG a 0 1\r\nx\r\nMSG a 1 1\r\nx\r\nMSG _INBOX.x.y 1 1\r\nx\r\n"
          "MSG a 18446744073709551615 1\r\nx\r\nMSG a 16777216 1\r\nx\r\n+OK\r\n"
          "-ERR 'Something Else'\r\n-ERR\r\n-ERR 'Permissions Violation for Publish to \"'\r\n"
          "-ERR 'Permissions Violation for Subscription to \"\"'\r\n");
      gyre::io::buffer input;
      const std::size_t size = co_await peer.read_until(input, "PING\r\n");
      static_cast<void>(size);
      co_await peer.write_all("PONG\r\n");
      co_await wait_for_end(std::move(peer));
    };
    auto close = [](client& target) -> task<> {
      co_await target.flush();
      EXPECT_EQ(target.metrics().server_errors, 4U);
      EXPECT_EQ(target.metrics().late_replies, 2U);
      target.close();
    };
    co_await gyre::when_all(serve(test), close(bus));
  }(*this));
}

TEST_F(NatsHostile, AnswersPing) {
  run([](NatsHostile& test) -> task<> {
    client bus = test.connect();
    auto ping = [](NatsHostile& fixture, client& target) -> task<> {
      tcp_stream peer = co_await fixture.log_in();
      co_await target.connect();
      co_await peer.write_all("PING\r\nPING\r\n");
      gyre::io::buffer input;
      const std::size_t size = co_await peer.read_until(input, "PONG\r\nPONG\r\n");
      EXPECT_EQ(size, 12U);
    };
    co_await gyre::when_all(ping(test, bus), bus.connect());
  }(*this));
}

TEST_F(NatsHostile, AnswersNoPingAboveTheHighWater) {
  run([](NatsHostile& test) -> task<> {
    client bus = test.connect({.high_water = 2});
    nats_test::notices events(bus);
    auto ping = [](NatsHostile& fixture) -> task<> {
      tcp_stream peer = co_await fixture.log_in();
      std::string pings;
      for (int each = 0; each < 1000; ++each) pings += "PING\r\n";
      co_await peer.write_all(pings + "-ERR 'Something Else'\r\n");
      gyre::io::buffer input;
      const std::size_t size = co_await peer.read_until(input, "PING\r\n");
      // As many as the parts in which the bytes have come.
      EXPECT_GE(size, std::string_view("PONG\r\nPING\r\n").size());
      EXPECT_LT(size, pings.size());
      co_await peer.write_all("PONG\r\n");
      co_await wait_for_end(std::move(peer));
    };
    auto flush = [](client& target, nats_test::notices& log) -> task<> {
      co_await target.connect();
      static_cast<void>(co_await log.wait_for(gyre::nats::notice::server_error));
      co_await target.flush();
      target.close();
    };
    co_await gyre::when_all(ping(test), flush(bus, events));
  }(*this));
}

TEST_F(NatsHostile, NoticesAHalfOpenConnection) {
  run([](NatsHostile& test) -> task<> {
    client bus = test.connect({.ping_interval = 2ms});
    // The peer stays, but answers nothing after the login.
    const auto [error, served] =
        co_await gyre::when_all(error_of(bus.flush()), test.serve_login(""));
    EXPECT_EQ(error, errc::no_reply);
  }(*this));
}

TEST_F(NatsHostile, ConnectsLessOftenToAServerThatHangsUp) {
  run([](NatsHostile& test) -> task<> {
    client bus = test.connect({.initial_delay = 1ms, .longest_delay = 10ms});
    auto hang_up = [](NatsHostile& fixture) -> task<> {
      for (int each = 0; each < 20; ++each) {
        tcp_stream peer = co_await fixture.log_in();
        peer.close();
      }
    };
    co_await gyre::when_all(hang_up(test), bus.connect());
    bus.close();
  }(*this));
}

TEST_F(NatsHostile, NeedsNoHeadersOfTheServer) {
  run([](NatsHostile& test) -> task<> {
    client bus = test.connect();
    auto serve = [](NatsHostile& fixture) -> task<> {
      tcp_stream peer = co_await fixture.listener.accept();
      co_await peer.write_all("INFO {\"headers\":false}\r\n");
      gyre::io::buffer input;
      const std::size_t size = co_await peer.read_until(input, "PING\r\n");
      EXPECT_THAT(std::string(input.text().substr(0, size)), HasSubstr("\"no_responders\":false"));
      co_await peer.write_all("PONG\r\n");
      co_await wait_for_end(std::move(peer));
    };
    auto publish = [](client& publisher) -> task<> {
      co_await publisher.connect();
      const gyre::nats::headers extra{{"A", "1"}};
      EXPECT_EQ(co_await error_of(publisher.publish("a", "x", {.headers = extra})),
                errc::headers_not_supported);
      publisher.close();
    };
    co_await gyre::when_all(serve(test), publish(bus));
  }(*this));
}

// Bytes that somebody else has sent in front of the encrypted ones must not count.
TEST_F(NatsHostile, TakesNoBytesBetweenInfoAndTls) {
  run([](NatsHostile& test) -> task<> {
    const auto context = gyre::tls::tls_context::client(gyre::tls::test::trusting());
    for (const char* text : {"INFO {\"tls_required\":true}\r\nPONG\r\n",
                             "INFO {\"tls_required\":true}\r\nMSG a 1 0\r\n\r\n",
                             "INFO {\"tls_required\":yes\r\n", "PONG\r\n", "INFO {}\r\n"}) {
      client bus = test.connect({.tls = context});
      const auto [error, served] =
          co_await gyre::when_all(error_of(bus.connect()), test.serve(text));
      EXPECT_TRUE(error == gyre::tls::errc::not_tls || error == errc::bad_message ||
                  error == errc::tls_not_available)
          << text << error.message();
    }
  }(*this));
}

TEST_F(NatsHostile, ForgetsServersThatMakeNoSense) {
  run([](NatsHostile& test) -> task<> {
    client bus = test.connect({.max_servers = 3});
    auto serve_flushes = [](client& target) -> task<> {
      co_await target.connect();
      const auto flush_error = co_await error_of(gyre::with_timeout(target.flush(), 1h));
      EXPECT_FALSE(flush_error);
      EXPECT_EQ(target.metrics().servers, 3U);
      target.close();
    };
    auto serve = [](NatsHostile& fixture) -> task<> {
      std::string urls = "INFO {\"headers\":true,\"connect_urls\":[\"\",\"::::\",\"a b:1\"";
      for (int each = 0; each < 1000; ++each) urls += ",\"h" + std::to_string(each) + ":1\"";
      tcp_stream peer = co_await fixture.log_in(urls + "]}\r\n");
      gyre::io::buffer input;
      const std::size_t size = co_await peer.read_until(input, "PING\r\n");
      static_cast<void>(size);
      co_await peer.write_all("PONG\r\n");
      co_await wait_for_end(std::move(peer));
    };
    co_await gyre::when_all(serve(test), serve_flushes(bus));
  }(*this));
}

}  // namespace
}  // namespace nats_client_hostile_test
