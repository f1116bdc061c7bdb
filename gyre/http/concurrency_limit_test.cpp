// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/concurrency_limit.hpp>

#include <gyre/http/server_test_support.hpp>
#include <gyre/sync/event.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace http_concurrency_limit_test {
namespace {

using namespace gyre::http::test;
using namespace std::chrono_literals;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::concurrency_limit;
using gyre::http::concurrency_limit_options;
using gyre::http::request;
using gyre::http::response;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class HttpConcurrencyLimit : public server_fixture {
 protected:
  void serve(concurrency_limit_options options) {
    limit.emplace(std::move(options));
    make();
    on->use(*limit);
    on->get("/slow", [this](request&) -> task<response> {
      co_await released.wait();
      co_return response::text("slow");
    });
    on->get("/stream", [this](request&) {
      return response::stream("text/plain", [this](body_writer& writer) -> task<> {
        co_await writer.write("begin");
        co_await released.wait();
      });
    });
    on->get("/fails", [](request&) -> response { throw std::runtime_error("fails"); });
    on->get("/quick", [](request&) { return response::text("quick"); });
    on->on_error([](const request&, const std::exception_ptr&) {});
    on->start();
  }
  // Sends a request, and waits until the limit knows it.
  peer& send(std::string_view path) {
    const auto before = count();
    peer& client = clients.emplace_back(on->local_endpoint());
    client.send(get(path));
    virtual_time.turn_until([&] { return count() != before; });
    return client;
  }
  std::uint64_t count() const {
    const auto now = limit->metrics();
    return now.admitted + now.waiting + now.refused + now.expired;
  }

  std::optional<concurrency_limit> limit;
  gyre::manual_reset_event released;
  std::list<peer> clients;
};

TEST_F(HttpConcurrencyLimit, RunsALimitedNumberAndLetsOthersWait) {
  serve({.max_running = 2, .max_waiting = 2, .max_wait = 10s});
  for (int i = 0; i < 4; ++i) send("/slow");
  EXPECT_EQ(limit->metrics().running, 2u);
  EXPECT_EQ(limit->metrics().waiting, 2u);
  released.set();
  for (peer& each : clients) EXPECT_THAT(next_response(each), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(limit->metrics().running, 0u);
  EXPECT_EQ(limit->metrics().waiting, 0u);
  EXPECT_EQ(limit->metrics().admitted, 4u);
  EXPECT_EQ(limit->metrics().refused, 0u);
}

TEST_F(HttpConcurrencyLimit, RefusesRequestsBeyondTheQueueAtOnce) {
  serve({.max_running = 1, .max_waiting = 1, .max_wait = 10s, .retry_after = 2500ms});
  send("/slow");
  send("/slow");
  EXPECT_THAT(next_response(send("/quick")),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("\r\nRetry-After: 3\r\n")));
  EXPECT_EQ(limit->metrics().refused, 1u);
  released.set();
  for (int i = 0; i < 2; ++i) next_response(*std::next(clients.begin(), i));
}

TEST_F(HttpConcurrencyLimit, RefusesARequestThatHasWaitedForTooLong) {
  serve({.max_running = 1, .max_wait = 2s});
  send("/slow");
  peer& waiting = send("/quick");
  virtual_time.settle();
  virtual_time.advance(1900ms);
  virtual_time.settle();
  waiting.receive();
  EXPECT_EQ(waiting.text, "");
  virtual_time.advance(200ms);
  EXPECT_THAT(next_response(waiting),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("\r\nRetry-After: 1\r\n")));
  EXPECT_EQ(limit->metrics().expired, 1u);
  EXPECT_EQ(limit->metrics().waiting, 0u);
  released.set();
  next_response(clients.front());
}

TEST_F(HttpConcurrencyLimit, WithoutAQueueRefusesAtOnce) {
  serve({.max_running = 1, .max_waiting = 0});
  send("/slow");
  EXPECT_THAT(next_response(send("/quick")), StartsWith("HTTP/1.1 503 "));
  released.set();
  EXPECT_THAT(next_response(clients.front()), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(next_response(send("/quick")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpConcurrencyLimit, AFailedHandlerReleasesItsSlot) {
  serve({.max_running = 1, .max_waiting = 0});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(next_response(send("/fails")), StartsWith("HTTP/1.1 500 "));
  }
  EXPECT_EQ(limit->metrics().running, 0u);
}

TEST_F(HttpConcurrencyLimit, AStreamHoldsItsSlotUntilItsEnd) {
  serve({.max_running = 1, .max_waiting = 0});
  send("/stream");
  virtual_time.settle();
  EXPECT_THAT(next_response(send("/quick")), StartsWith("HTTP/1.1 503 "));
  clients.front().reset();
  virtual_time.turn_until([&] { return limit->metrics().running == 0; });
  peer& second = send("/stream");
  released.set();
  EXPECT_THAT(next_response(second), StartsWith("HTTP/1.1 200 "));
  virtual_time.turn_until([&] { return limit->metrics().running == 0; });
}

TEST_F(HttpConcurrencyLimit, AClientThatLeavesGivesUpItsPlace) {
  serve({.max_running = 1, .max_waiting = 1, .max_wait = 1h});
  send("/slow");
  send("/quick").reset();
  virtual_time.turn_until([&] { return limit->metrics().waiting == 0; });
  peer& next = send("/quick");
  EXPECT_EQ(limit->metrics().waiting, 1u);
  clients.front().reset();  // the handler is asked to stop, and the next request runs
  EXPECT_THAT(next_response(next), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(limit->metrics().expired, 0u);
}

TEST_F(HttpConcurrencyLimit, ExemptRequestsAreNotCounted) {
  serve({.max_running = 1, .max_waiting = 0, .exempts = [](const request& request) {
           return request.path() == "/quick";
         }});
  send("/slow");
  EXPECT_THAT(answer_to(get("/quick")), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(limit->metrics().admitted, 1u);
  released.set();
  next_response(clients.front());
}

TEST_F(HttpConcurrencyLimit, RefusesOptionsOutOfRange) {
  EXPECT_THROW(concurrency_limit({.max_running = 0}), std::invalid_argument);
  EXPECT_THROW(concurrency_limit({.max_running = std::size_t(-1)}), std::invalid_argument);
  EXPECT_THROW(concurrency_limit({.max_wait = -1s}), std::invalid_argument);
  EXPECT_THROW(concurrency_limit({.retry_after = -1s}), std::invalid_argument);
}

}  // namespace
}  // namespace http_concurrency_limit_test
