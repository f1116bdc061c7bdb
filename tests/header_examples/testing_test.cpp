// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of testing's headers.
#include <gyre/gyre.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/testing/explore.hpp>
#include <gyre/testing/http_client.hpp>
#include <gyre/testing/http_exchange.hpp>
#include <gyre/testing/io_in_virtual_time.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <gyre/testing/scripted_peer.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace testing_test {
namespace {

using namespace std::chrono_literals;

gyre::task<> sleeps_for(std::chrono::nanoseconds duration, bool& done) {
  co_await gyre::sleep_for(duration);
  done = true;
}

// gyre/testing/manual_executor.hpp
TEST(TestingExamples, ACoroutineSleepsUntilTheTestAdvancesTheTime) {
  bool done = false;
  gyre::testing::manual_executor executor;
  gyre::spawn(executor, sleeps_for(1h, done));
  executor.run_all();
  executor.advance(1h);  // at once
  EXPECT_TRUE(done);
}

gyre::task<int> answer_after(std::chrono::nanoseconds duration) {
  co_await gyre::sleep_for(duration);
  co_return 42;
}

// gyre/testing/run_in_virtual_time.hpp
TEST(TestingExamples, ACoroutineOfADayEndsAtOnce) {
  EXPECT_EQ(gyre::testing::run_in_virtual_time(answer_after(24h)), 42);  // at once
}

// Greets by a name that comes in pieces, and says goodbye.
gyre::task<> session(gyre::io::stream& stream) {
  gyre::io::buffer name;
  co_await stream.read_until(name, "\n");
  co_await stream.write_all("hello, " + std::string(name.text()));
  co_await stream.write_all("bye\n");
  co_await stream.receive();
}

// gyre/testing/scripted_peer.hpp
TEST(TestingExamples, APeerFollowsItsScript) {
  gyre::testing::virtual_time_loop virtual_time;
  gyre::testing::scripted_peer peer(virtual_time);
  peer.send("hel").wait(50ms).send("lo\n").expect("bye\n").end();
  gyre::io::stream stream = peer.connect();
  virtual_time.run(session(stream));
  EXPECT_EQ(peer.received(), "hello, hello\nbye\n");
}

// gyre/testing/io_in_virtual_time.hpp
TEST(TestingExamples, ATimeLimitOfAnHourExpiresAtOnce) {
  gyre::testing::io_in_virtual_time world;
  auto [near, far] = gyre::net::socket_pair();
  gyre::io::stream stream(world.loop, near.release(), gyre::io::handle_kind::socket);
  auto reading = gyre::with_timeout(stream.receive(), 1h);
  EXPECT_THROW(world.run(std::move(reading)), std::system_error);  // at once
}

gyre::http::response show_user(gyre::http::request& request) {
  return gyre::http::response::text(request.param("id") == "7" ? "Ada" : "nobody");
}

// gyre/testing/http_client.hpp
TEST(TestingExamples, AHandlerIsAskedWithoutAPort) {
  gyre::testing::io_in_virtual_time world;
  gyre::http::server server(world.loop);
  server.get("/users/{id}", show_user);
  gyre::testing::http_client client(world, server);
  gyre::http::client_response answer = client.get("/users/7");
  EXPECT_EQ(answer.body(), "Ada");
}

// gyre/testing/http_exchange.hpp
TEST(TestingExamples, EventsAreReadUntilTheClientLeaves) {
  gyre::testing::io_in_virtual_time world;
  gyre::http::server server(world.loop);
  server.get("/prices", [](gyre::http::request&) {
    return gyre::http::event_stream([](gyre::http::event_writer& prices) -> gyre::task<> {
      co_await prices.send("7");
      co_await gyre::sleep_for(24h);
    });
  });
  gyre::testing::http_client client(world, server);
  gyre::testing::http_exchange prices = client.start("/prices");  // a stream of events
  EXPECT_EQ(prices.next_event()->data, "7");
  prices.leave();  // the handler is requested to stop
  EXPECT_EQ(server.metrics().active, 0U);
}

// gyre/testing/system_call_faults.hpp
TEST(TestingExamples, SystemCallsFail) {
  const gyre::testing::fault full("accept4", EMFILE);  // the next accept4 fails
  const gyre::testing::fault late("send", ENOBUFS, {.after = 2, .times = 3});
  EXPECT_EQ(::accept4(-1, nullptr, nullptr, 0), -1);
  EXPECT_EQ(errno, EMFILE);
  for (const int error : {EBADF, EBADF, ENOBUFS, ENOBUFS, ENOBUFS, EBADF}) {
    EXPECT_EQ(::send(-1, "x", 1, 0), -1);
    EXPECT_EQ(errno, error);
  }
}

void answer(std::string& message) { message[0] = 'y'; }

// gyre/testing/allocations.hpp
TEST(TestingExamples, AnAnswerAllocatesNothing) {
  std::string message = "x";
  const gyre::testing::allocation_count during;
  answer(message);
  EXPECT_EQ(during.allocations(), 0U);
  EXPECT_EQ(during.slab_blocks(), 0);  // every frame was given back
}

// gyre/testing/virtual_time_loop.hpp
TEST(TestingExamples, ATimerFiresAnHourLaterAtOnce) {
  bool fired = false;
  gyre::testing::virtual_time_loop virtual_time;
  gyre::timer timer(virtual_time.loop, [&] { fired = true; });
  timer.start_after(1h);
  virtual_time.loop.run_once();  // an hour later, at once
  EXPECT_TRUE(fired);
}

gyre::task<> add_one(gyre::mutex& mutex, int& count) {
  auto guard = co_await mutex.lock();
  const int seen = count;
  co_await gyre::yield();
  count = seen + 1;
}

// gyre/testing/explore.hpp
TEST(TestingExamples, NoScheduleLosesAnUpdate) {
  const auto found = gyre::testing::explore(1000, [](gyre::executor&) -> gyre::task<> {
    gyre::mutex mutex;
    int count = 0;
    co_await gyre::when_all(add_one(mutex, count), add_one(mutex, count));
    if (count != 2) throw std::logic_error("an update was lost");
  });
  EXPECT_TRUE(found.passed()) << found.message;
}

}  // namespace
}  // namespace testing_test
