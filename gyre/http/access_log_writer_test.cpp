// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/access_log_writer.hpp>

#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/concurrency_limit.hpp>
#include <gyre/http/rate_limit.hpp>
#include <gyre/http/server_test_support.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace http_access_log_writer_test {
namespace {

using namespace gyre::http::test;
using namespace std::chrono_literals;
using gyre::task;
using gyre::http::access_log_writer;
using gyre::http::access_record;
using gyre::http::request;
using gyre::http::response;

std::string target_of(const access_record& record) { return std::string(record.request.target()); }

class HttpAccessLogWriter : public server_fixture {
 protected:
  void serve(const access_log_writer& log) {
    make();
    on->on_access(log);
    on->get("/{name}", [](request&) { return response::text("x"); });
    on->start();
  }

  std::string text;
};

TEST_F(HttpAccessLogWriter, PassesLinesInTheirOrder) {
  const access_log_writer log(virtual_time.loop, [&](std::string_view lines) { text += lines; },
                              {.format = target_of});
  serve(log);
  peer client = connect();
  client.send(get("/a") + get("/b") + get("/c"));
  virtual_time.turn_until([&] { return text.size() == 9; });
  EXPECT_EQ(text, "/a\n/b\n/c\n");
  EXPECT_EQ(log.metrics().lines, 3u);
}

TEST_F(HttpAccessLogWriter, WritesTheCombinedFormatByDefault) {
  const access_log_writer log(virtual_time.loop, [&](std::string_view lines) { text += lines; });
  serve(log);
  answer_to(get("/a"));
  virtual_time.turn_until([&] { return !text.empty(); });
  EXPECT_THAT(text, testing::EndsWith("\"GET /a HTTP/1.1\" 200 1 \"-\" \"-\"\n"));
}

TEST_F(HttpAccessLogWriter, PassesAllPendingLinesTogether) {
  gyre::loop other;  // runs only when the test turns it
  std::vector<std::string> calls;
  const access_log_writer log(other, [&](std::string_view lines) { calls.emplace_back(lines); },
                              {.format = target_of});
  serve(log);
  for (const std::string_view path : {"/a", "/b", "/c"}) answer_to(get(path));
  EXPECT_TRUE(calls.empty());
  gyre::net::test::settle(other);
  EXPECT_THAT(calls, testing::ElementsAre("/a\n/b\n/c\n"));
  answer_to(get("/d"));
  log.flush();
  EXPECT_EQ(calls.back(), "/d\n");
  gyre::net::test::settle(other);
  EXPECT_EQ(calls.size(), 2u);
}

TEST_F(HttpAccessLogWriter, DropsLinesAboveItsLimit) {
  gyre::loop other;  // runs only when the test turns it
  const access_log_writer log(other, [&](std::string_view lines) { text += lines; },
                              {.format = target_of, .max_pending = 7});
  serve(log);
  for (const std::string_view path : {"/a", "/b", "/c", "/d"}) answer_to(get(path));
  gyre::net::test::settle(other);
  EXPECT_EQ(text, "/a\n/b\n");
  EXPECT_EQ(log.metrics().dropped, 2u);
  answer_to(get("/e"));
  gyre::net::test::settle(other);
  EXPECT_EQ(text, "/a\n/b\n/e\n");
}

TEST_F(HttpAccessLogWriter, SurvivesAFunctionThatThrows) {
  int calls = 0;
  const auto write = [&](std::string_view lines) {
    if (++calls == 1) throw std::runtime_error("disk full");
    text += lines;
  };
  const access_log_writer log(virtual_time.loop, write, {.format = target_of});
  serve(log);
  answer_to(get("/a"));
  virtual_time.turn_until([&] { return calls == 1; });
  answer_to(get("/b"));
  virtual_time.turn_until([&] { return calls == 2; });
  EXPECT_EQ(text, "/b\n");
  EXPECT_EQ(log.metrics().failures, 1u);
}

TEST_F(HttpAccessLogWriter, RefusesEmptyFunctionsAndALimitOfZero) {
  const auto write = [](std::string_view) {};
  EXPECT_THROW(access_log_writer(virtual_time.loop, access_log_writer::write_function()),
               std::invalid_argument);
  EXPECT_THROW(access_log_writer(virtual_time.loop, write, {.format = {}}), std::invalid_argument);
  EXPECT_THROW(access_log_writer(virtual_time.loop, write, {.max_pending = 0}),
               std::invalid_argument);
}

// Several loops share a log, a rate limit and a limit of concurrent requests, and another thread
// reads all counts meanwhile.
TEST(HttpLimitsOfSeveralLoops, AreShared) {
  constexpr int per_client = 100;
  gyre::loop_pool loops(3);
  gyre::thread_pool writers(2);
  std::string text;
  bool is_writing = false;
  const auto write = [&](std::string_view lines) {
    EXPECT_FALSE(std::exchange(is_writing, true));
    text += lines;
    is_writing = false;
  };
  const access_log_writer log(writers, write, {.format = target_of});
  const gyre::http::rate_limit rate({.tokens = 1, .per = 24h, .burst = 300});
  const gyre::http::concurrency_limit concurrency({.max_running = 2, .max_wait = 1h});
  gyre::http::server server(loops, gyre::net::test::any_port(),
                            {.request_ids = {.field = "X-Id"}, .counts_routes = true});
  server.on_access(log);
  server.use(rate);
  server.use(concurrency);
  server.get("/{name}", [](request&) -> task<response> {
    co_await gyre::yield();
    co_return response::text("x");
  });
  server.start();
  const std::string url = "http://" + server.local_endpoint().to_string() + '/';
  std::atomic<int> allowed = 0, refused = 0;
  const auto ask = [&](int number) {
    gyre::loop loop;
    gyre::http::client client(loop);
    const auto send_all = [&]() -> task<> {
      for (int i = 0; i < per_client; ++i) {
        auto sending = client.get(url + std::to_string(number) + '-' + std::to_string(i));
        const auto answer = co_await std::move(sending);
        if (to_number(answer.status()) == 200) ++allowed;
        if (to_number(answer.status()) == 429) ++refused;
      }
    };
    gyre::sync_wait(loop, send_all());
  };
  {
    std::vector<std::jthread> clients;
    for (int number = 0; number < 4; ++number) clients.emplace_back(ask, number);
    for (int i = 0; i < 200; ++i) {
      static_cast<void>(server.route_metrics());
      static_cast<void>(concurrency.metrics());
      static_cast<void>(rate.metrics());
      static_cast<void>(log.metrics());
    }
  }
  gyre::sync_wait(server.stop_async());
  log.flush();
  EXPECT_EQ(allowed, 300);
  EXPECT_EQ(refused, 100);
  EXPECT_EQ(concurrency.metrics().admitted, 300u);
  EXPECT_EQ(concurrency.metrics().running, 0u);
  EXPECT_EQ(server.route_metrics()[0].durations.count(), 400u);
  EXPECT_EQ(std::ranges::count(text, '\n'), 4 * per_client);
  std::map<std::string, int> next;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(line.size() + 1);
    const std::size_t dash = line.find('-');
    EXPECT_EQ(std::stoi(line.substr(dash + 1)), next[line.substr(0, dash)]++) << line;
  }
}

}  // namespace
}  // namespace http_access_log_writer_test
