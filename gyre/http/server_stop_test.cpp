// SPDX-License-Identifier: Apache-2.0
// Tests of a server's stop: of handlers that learn of it, and of requests that are arriving.
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <tests/support/io_in_virtual_time.hpp>
#include <tests/support/lockstep_loop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

namespace http_server_stop_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::request;
using gyre::http::response;
using gyre::http::server;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class HttpServerStop : public testing::Test {
 protected:
  void stop() {
    on.stop(1h, [this] { done = true; });
  }
  // A request that lasts a minute, so that the server does not stop earlier.
  void add_slow() {
    on.get("/slow", [](request&) -> task<response> {
      co_await gyre::sleep_for(1min);
      co_return response::text("slow");
    });
  }
  void send_slow(const peer& client) {
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    virtual_time.turn_until([&] { return on.metrics().active == 1; });
  }
  // A request whose handler runs for a minute, even if its stop is requested.
  void add_unstoppable() {
    on.get("/", [](request&) -> task<response> {
      auto sleeping = gyre::shielded(gyre::sleep_for(1min));
      co_await std::move(sleeping);
      co_return response::text("x");
    });
  }
  // Called after a stop with a time limit of at most 5 seconds has begun.
  void expect_to_await_the_handler(peer& client) {
    virtual_time.settle();
    virtual_time.advance(6s);
    virtual_time.turn_until([&] {
      client.receive();
      return client.ended;
    });
    virtual_time.settle();
    EXPECT_EQ(on.metrics().tcp.connections, 0u);
    EXPECT_FALSE(done);
    EXPECT_EQ(on.metrics().active, 1u);
    virtual_time.advance(1min);
    virtual_time.turn_until([&] { return done; });
    EXPECT_EQ(on.metrics().active, 0u);
  }
  const std::string& received_end(peer& client) {
    virtual_time.turn_until([&] {
      client.receive();
      return client.ended;
    });
    EXPECT_EQ(client.error, 0);
    client.close();
    return client.text;
  }
  void send_get(const peer& client, std::string_view more = "") {
    client.send("GET / HTTP/1.1\r\nHost: a\r\n" + std::string(more) + "\r\n");
    virtual_time.turn_until([&] { return on.metrics().active != 0; });
    virtual_time.settle();
  }

  gyre::test::io_in_virtual_time virtual_time;
  server on{virtual_time.loop, any_port()};
  bool done = false;
};

TEST_F(HttpServerStop, AnAnswerThatIsOnItsWayIsSentToItsEnd) {
  const std::string body(std::size_t{12} << 20, 'x');
  on.get("/", [&](request&) { return response::text(body); });
  on.start();
  peer client(on.local_endpoint());
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  virtual_time.turn_until([&] { return on.metrics().successes == 1; });
  stop();
  virtual_time.settle();
  virtual_time.advance(1s);
  virtual_time.settle();
  EXPECT_GT(received_end(client).size(), body.size());
}

TEST_F(HttpServerStop, AHandlerThatWaitsAnswersAtOnce) {
  on.get("/", [](request& request) -> task<response> {
    EXPECT_FALSE(request.server_stop_token().stop_requested());
    auto waiting =
        gyre::as_expected(gyre::stop_when(gyre::sleep_for(1h), request.server_stop_token()));
    const auto slept = co_await std::move(waiting);
    co_return response::text(slept ? "slept" : "stops");
  });
  on.start();
  peer client(on.local_endpoint());
  send_get(client);
  stop();
  EXPECT_THAT(received_end(client), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(client.text, EndsWith("\r\n\r\nstops"));
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServerStop, AStreamEndsWholly) {
  on.get("/", [](request&) {
    return response::stream("text/plain", [](body_writer& writer) -> task<> {
      while (!writer.server_stop_token().stop_requested()) {
        co_await writer.write("x");
        co_await gyre::sleep_for(1s);
      }
    });
  });
  add_slow();
  on.start();
  peer slow(on.local_endpoint());
  send_slow(slow);
  peer client(on.local_endpoint());
  send_get(client);
  virtual_time.turn_until([&] { return on.metrics().active == 2; });
  virtual_time.settle();
  stop();
  virtual_time.settle();
  virtual_time.advance(1500ms);
  EXPECT_THAT(received_end(client), EndsWith("\r\n\r\n1\r\nx\r\n0\r\n\r\n"))
      << "and its connection, which was to be kept, does not await the other request";
  EXPECT_FALSE(done);
  virtual_time.advance(1min);
  EXPECT_THAT(received_end(slow), EndsWith("slow"));
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServerStop, AnUpgradedConnectionLearnsIt) {
  on.get("/", [](request&) {
    return response::upgrade("x", [](gyre::http::upgraded_connection& client) -> task<> {
      auto reading = gyre::as_expected(gyre::stop_when(client.next(), client.server_stop_token()));
      const auto read = co_await std::move(reading);
      co_await client.write(read ? "read" : "bye");
    });
  });
  on.start();
  peer client(on.local_endpoint());
  send_get(client, "Connection: upgrade\r\nUpgrade: x\r\n");
  stop();
  EXPECT_THAT(received_end(client), EndsWith("\r\n\r\nbye"));
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServerStop, ARequestThatComesLaterKnowsIt) {
  on.get("/", [](request& request) -> task<response> {
    co_return response::text(request.server_stop_token().stop_requested() ? "stops" : "serves");
  });
  add_slow();
  on.start();
  peer slow(on.local_endpoint());
  send_slow(slow);
  peer client(on.local_endpoint());
  client.send("GET / HTTP/1.1\r\n");
  virtual_time.turn_until([&] { return on.metrics().tcp.connections == 2; });
  virtual_time.settle();
  stop();
  virtual_time.settle();
  client.send("Host: a\r\n\r\n");
  EXPECT_THAT(received_end(client), EndsWith("\r\n\r\nstops"));
  virtual_time.advance(1min);
  EXPECT_THAT(received_end(slow), EndsWith("slow"));
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServerStop, AHandlerMayDestroyWhatItWaitedFor) {
  std::optional<std::string> state("kept");
  on.get("/", [&](request& request) -> task<response> {
    auto waiting =
        gyre::as_expected(gyre::stop_when(gyre::sleep_for(1h), request.server_stop_token()));
    static_cast<void>(co_await std::move(waiting));
    std::string last = state.value_or("gone");
    state.reset();
    co_return response::text(std::move(last));
  });
  on.start();
  peer one(on.local_endpoint());
  peer other(on.local_endpoint());
  send_get(one);
  other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  virtual_time.turn_until([&] { return on.metrics().active == 2; });
  stop();
  const std::string both = received_end(one) + received_end(other);
  EXPECT_THAT(both, HasSubstr("kept"));
  EXPECT_THAT(both, HasSubstr("gone"));
  virtual_time.turn_until([&] { return done; });
}

// --- Requests that are still arriving ---

TEST_F(HttpServerStop, AHeadThatIsArrivingIsAnswered) {
  on.get("/", [](request&) { return response::text("x"); });
  on.start();
  peer idle(on.local_endpoint());
  peer client(on.local_endpoint());
  client.send("G");
  virtual_time.turn_until([&] { return on.metrics().tcp.traffic.bytes_received == 1; });
  EXPECT_EQ(on.metrics().active, 1u);
  stop();
  virtual_time.settle();
  virtual_time.advance(2s);
  EXPECT_EQ(received_end(idle), "");
  EXPECT_FALSE(done);
  client.send("ET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(received_end(client), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(client.text, EndsWith("\r\n\r\nx"));
  virtual_time.turn_until([&] { return done; });
  EXPECT_EQ(on.metrics().active, 0u);
}

TEST_F(HttpServerStop, ARequestInTheSocketsBufferIsAnswered) {
  on.get("/", [](request&) { return response::text("x"); });
  on.start();
  peer kept(on.local_endpoint());
  kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  virtual_time.turn_until([&] {
    kept.receive();
    return kept.text.ends_with("x");
  });
  kept.text.clear();
  kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  peer waiting(on.local_endpoint());
  waiting.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  stop();
  for (peer* each : {&kept, &waiting}) {
    EXPECT_THAT(received_end(*each), HasSubstr("\r\nConnection: close\r\n"));
    EXPECT_THAT(each->text, EndsWith("\r\n\r\nx"));
  }
  virtual_time.turn_until([&] { return done; });
  EXPECT_EQ(on.metrics().successes, 3u);
}

TEST_F(HttpServerStop, ANewConnectionMayStillSendItsFirstRequest) {
  on.get("/", [](request&) { return response::text("x"); });
  on.start();
  peer client(on.local_endpoint());
  virtual_time.turn_until([&] { return on.metrics().tcp.connections == 1; });
  stop();
  virtual_time.settle();
  EXPECT_FALSE(done);
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(received_end(client), EndsWith("\r\n\r\nx"));
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServerStop, AConnectionThatIsKeptEndsAtOnce) {
  on.get("/", [](request&) { return response::text("x"); });
  add_slow();
  on.start();
  peer slow(on.local_endpoint());
  send_slow(slow);
  peer kept(on.local_endpoint());
  kept.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  virtual_time.turn_until([&] {
    kept.receive();
    return kept.text.ends_with("x");
  });
  stop();
  EXPECT_THAT(received_end(kept), EndsWith("x"));
  EXPECT_FALSE(done);
  virtual_time.advance(1min);
  EXPECT_THAT(received_end(slow), EndsWith("slow"));
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServerStop, ABodyThatIsArrivingIsAnswered) {
  on.post("/", [](request& request) { return response::text(std::string(request.body())); });
  on.start();
  peer client(on.local_endpoint());
  const std::string_view begin = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe";
  client.send(begin);
  virtual_time.turn_until([&] { return on.metrics().tcp.traffic.bytes_received == begin.size(); });
  EXPECT_EQ(on.metrics().active, 1u);
  stop();
  virtual_time.settle();
  client.send("llo");
  EXPECT_THAT(received_end(client), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(client.text, EndsWith("\r\n\r\nhello"));
  virtual_time.turn_until([&] { return done; });
  EXPECT_EQ(on.metrics().active, 0u);
}

TEST_F(HttpServerStop, ARequestBehindAnAnswerOnItsWayIsAnswered) {
  const std::string body(std::size_t{12} << 20, 'x');
  on.get("/", [&](request&) { return response::text(body); });
  on.get("/next", [](request&) { return response::text("next"); });
  on.start();
  peer client(on.local_endpoint());
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
  virtual_time.turn_until([&] { return on.metrics().successes == 1; });
  stop();
  virtual_time.settle();
  const std::string& all = received_end(client);
  EXPECT_THAT(all.substr(all.size() - 200), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_THAT(all.substr(all.size() - 200), EndsWith("\r\n\r\nnext"));
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServerStop, ARequestThatIsNeverWholeDelaysItUpToItsTimeLimit) {
  on.post("/", [](request&) { return response::text("x"); });
  on.start();
  for (const std::string_view begin :
       {"POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe"}) {
    peer client(on.local_endpoint());
    const auto before = on.metrics().tcp.traffic.bytes_received;
    client.send(begin);
    virtual_time.turn_until(
        [&] { return on.metrics().tcp.traffic.bytes_received == before + begin.size(); });
    EXPECT_EQ(on.metrics().active, 1u);
    virtual_time.advance(11s);
    EXPECT_THAT(received_end(client), StartsWith("HTTP/1.1 408 "));
    EXPECT_EQ(on.metrics().active, 0u);
  }
  peer client(on.local_endpoint());
  const auto before = on.metrics().tcp.traffic.bytes_received;
  client.send("POST");
  virtual_time.turn_until([&] { return on.metrics().tcp.traffic.bytes_received == before + 4; });
  stop();
  virtual_time.settle();
  EXPECT_FALSE(done);
  virtual_time.advance(11s);
  EXPECT_THAT(received_end(client), StartsWith("HTTP/1.1 408 "));
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServerStop, ARequestWhosePeerHasGoneDelaysItNoLonger) {
  on.start();
  peer ended(on.local_endpoint());
  peer reset(on.local_endpoint());
  for (const peer* each : {&ended, &reset}) each->send("GET");
  virtual_time.turn_until([&] { return on.metrics().tcp.traffic.bytes_received == 6; });
  stop();
  virtual_time.settle();
  EXPECT_FALSE(done);
  ended.end_sending();
  reset.reset();
  virtual_time.turn_until([&] { return done; });
  EXPECT_EQ(on.metrics().active, 0u);
}

TEST_F(HttpServerStop, ItsDeadlineEndsARequestThatIsArriving) {
  on.start();
  peer client(on.local_endpoint());
  client.send("GET");
  virtual_time.turn_until([&] { return on.metrics().tcp.traffic.bytes_received == 3; });
  on.stop(5s, [this] { done = true; });
  virtual_time.settle();
  EXPECT_FALSE(done);
  virtual_time.advance(6s);
  virtual_time.turn_until([&] { return done; });
  EXPECT_EQ(on.metrics().active, 0u);
}

// --- Handlers that ignore their stop ---

TEST_F(HttpServerStop, AwaitsAHandlerThatIgnoresTheDeadline) {
  add_unstoppable();
  on.start();
  peer client(on.local_endpoint());
  send_get(client);
  on.stop(5s, [this] { done = true; });
  expect_to_await_the_handler(client);
}

// The request comes after the first moment without a request in progress.
TEST_F(HttpServerStop, AwaitsAHandlerOfALateRequest) {
  add_unstoppable();
  on.start();
  peer client(on.local_endpoint());
  virtual_time.turn_until([&] { return on.metrics().tcp.connections == 1; });
  on.stop(5s, [this] { done = true; });
  virtual_time.settle();
  send_get(client);
  expect_to_await_the_handler(client);
}

// As when a runtime's shutdown is forced while its hook awaits the stop.
TEST_F(HttpServerStop, AStopRequestToTheAwaitingTaskDoesNotEndTheWait) {
  add_unstoppable();
  on.start();
  peer client(on.local_endpoint());
  send_get(client);
  gyre::inplace_stop_source source;
  const auto await_stop = [this]() -> task<> {
    co_await on.stop_async(1h);
    done = true;
  };
  gyre::spawn(
      virtual_time.loop, await_stop(),
      {.stop = source.get_token(), .on_error = [&](const std::exception_ptr&) { done = true; }});
  virtual_time.settle();
  source.request_stop();
  expect_to_await_the_handler(client);
}

TEST(HttpServerStopCallbacks, StopAsyncFailsIfTheServerIsDestroyedWhileAHandlerRuns) {
  gyre::test::io_in_virtual_time virtual_time;
  auto on = std::make_unique<server>(virtual_time.loop, any_port());
  on->get("/", [](request&) -> task<response> {
    auto sleeping = gyre::shielded(gyre::sleep_for(1min));
    co_await std::move(sleeping);
    co_return response::text("x");
  });
  on->start();
  peer client(on->local_endpoint());
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  gyre::inplace_stop_source source;
  const auto await_stop = [&]() -> task<> { co_await on->stop_async(1h); };
  std::exception_ptr error;
  gyre::spawn(virtual_time.loop, await_stop(),
              {.stop = source.get_token(),
               .on_error = [&](const std::exception_ptr& thrown) { error = thrown; }});
  virtual_time.settle();
  on.reset();
  source.request_stop();
  virtual_time.settle();
  EXPECT_THAT([&] { std::rethrow_exception(error); },
              testing::Throws<std::system_error>(testing::Property(
                  &std::system_error::code, make_error_code(std::future_errc::broken_promise))));
  virtual_time.advance(1min);
  virtual_time.settle();
}

TEST_F(HttpServerStop, AFurtherCallMayShortenTheTimeLimit) {
  add_slow();
  on.start();
  peer client(on.local_endpoint());
  send_slow(client);
  bool done_by_second = false;
  stop();
  virtual_time.settle();
  on.stop(5s, [&] { done_by_second = true; });
  virtual_time.settle();
  EXPECT_FALSE(done || done_by_second);
  virtual_time.advance(6s);
  virtual_time.turn_until([&] { return done && done_by_second; });
  EXPECT_EQ(on.metrics().active, 0u);
}

TEST(HttpServerStopCallbacks, OneThatThrowsDoesNotKeepTheOthersFromBeingCalled) {
  int exceptions = 0;
  gyre::test::io_in_virtual_time virtual_time(
      {.on_exception = [&](const std::exception_ptr&) { ++exceptions; }});
  server on(virtual_time.loop, any_port());
  on.start();
  bool done = false;
  on.stop(1h, [] { throw std::runtime_error("a callback"); });
  on.stop(1h, [&] { done = true; });
  virtual_time.settle();
  EXPECT_TRUE(done);
  EXPECT_EQ(exceptions, 1);
}

// A handler ends the stop on the second loop, whose thread then makes the first loop call the
// callback. Afterwards the loops may be destroyed as soon as the server is.
TEST(HttpServerStopOnLoops, TheDestructorAwaitsTheThreadThatEndsTheStop) {
  gyre::loop second;
  gyre::test::lockstep_loop first;
  auto on = std::make_unique<server>(
      std::vector<gyre::event_loop*>{&first.loop, &second},
      gyre::http::server_options{.tcp = {.strategy = gyre::net::accept_strategy::round_robin}});
  on->listen(any_port());
  gyre::manual_reset_event may_respond;
  on->get("/", [&](request&) -> task<response> {
    auto waiting = gyre::shielded(may_respond.wait());
    co_await std::move(waiting);
    co_return response::text("x");
  });
  on->start();
  peer idle(on->local_endpoint());
  peer client(on->local_endpoint());
  client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  while (on->metrics().requests == 0) second.run_for(1ms);
  std::latch stopped(1);
  std::atomic<bool> is_destroyed = false;
  std::thread destroyer([&] {
    stopped.wait();
    on.reset();
    is_destroyed = true;
  });
  bool was_destroyed_early = false;
  on->stop(0s, [&] {
    stopped.count_down();
    // While this task runs, the thread of the second loop waits in its post to the first loop,
    // unless the first loop was awake at that post.
    first.loop.post([&] {
      const bool thread_waits = first.has_waker();
      for (int i = 0; i < 10'000 && !is_destroyed; ++i) std::this_thread::yield();
      was_destroyed_early = thread_waits && is_destroyed;
    });
  });
  while (on->metrics().tcp.connections != 0) second.run_for(1ms);
  first.await_sleep();
  may_respond.set();
  while (!is_destroyed) second.run_for(1ms);
  destroyer.join();
  first.await_sleep();
  EXPECT_FALSE(was_destroyed_early);
}

}  // namespace
}  // namespace http_server_stop_test
