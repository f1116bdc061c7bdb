// SPDX-License-Identifier: Apache-2.0
// Five faults that slow a service down, each of which one text dump of the flight recorder names.
#include <gyre/exec/executor_watchdog.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/testing/fake_dns_server.hpp>
#include <gyre/trace/dump.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

namespace planted_faults_test {

// Functions with external names, which the dump shows.
gyre::task<> update_account(gyre::mutex& accounts, int& updates) {
  auto guard = co_await accounts.lock();
  co_await gyre::sleep_for(std::chrono::milliseconds(5));
  ++updates;
}
struct rebuild_index {
  void operator()() const { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
};
gyre::task<> scale_image() {
  rebuild_index()();
  co_return;
}

namespace {

using namespace gyre::net::test;
using testing::HasSubstr;

TEST(PlantedFaults, AHandlerThatBlocksEveryThousandthRequest) {
  gyre::loop loop;
  gyre::http::server server(loop, any_port());
  int requests = 0;
  server.get("/quick", [](gyre::http::request&) { return gyre::http::response::text("."); });
  server.get("/report/{id}", [&](gyre::http::request&) {
    if (++requests % 1000 == 0) std::this_thread::sleep_for(20ms);
    return gyre::http::response::text(".");
  });
  server.start();
  const peer client(server.local_endpoint());
  for (int request = 0; request < 2000; ++request) {
    client.send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\nGET /report/7 HTTP/1.1\r\nHost: a\r\n\r\n");
    if (request % 20 == 0) loop.poll();
  }
  turn_until(loop, [&] { return server.metrics().successes == 4000; });
  EXPECT_THAT(gyre::trace::dump_text({.slow = 19ms}),
              testing::ContainsRegex(" by handler GET /report/\\{id\\} \\([0-9]+ times, "));
}

TEST(PlantedFaults, AConvoyOnAMutex) {
  gyre::loop loop;
  gyre::mutex accounts;
  int updates = 0;
  for (int coroutine = 0; coroutine < 10; ++coroutine) {
    gyre::spawn(loop, update_account(accounts, updates));
  }
  turn_until(loop, [&] { return updates == 10; });
  // Nine of the coroutines wait, for 5 to 45 ms.
  const std::string text = gyre::trace::dump_text({.slow = 4ms});
  EXPECT_THAT(text, HasSubstr("lock wait planted_faults_test::update_account: "));
  EXPECT_THAT(text, HasSubstr("(9 times, "));
}

TEST(PlantedFaults, ASlowResolver) {
  gyre::loop loop;
  gyre::testing::fake_dns_server dns(loop);
  dns["slow.example.org"] = {.reply = gyre::testing::fake_dns_server::reply_kind::none};
  gyre::net::resolver resolver(loop, {.servers = {dns.local_endpoint()},
                                      .timeout = 50ms,
                                      .tries = 1,
                                      .order = gyre::net::lookup_order::dns_only});
  bool is_done = false;
  const auto lookup =
      resolver.resolve("slow.example.org", 80, [&](const auto&) { is_done = true; });
  turn_until(loop, [&] { return is_done; });
  EXPECT_THAT(gyre::trace::dump_text(), HasSubstr("resolve slow.example.org: "));
}

TEST(PlantedFaults, APoolStarvedByOneLongTask) {
  gyre::thread_pool pool({.workers = 1, .name = "images"});
  pool.post(rebuild_index());
  for (int task = 0; task < 10; ++task) pool.post([] {});
  pool.wait_idle();
  EXPECT_THAT(gyre::trace::dump_text(), HasSubstr("thread 'images-0' ("));
  EXPECT_THAT(gyre::trace::dump_text(), HasSubstr(" by task planted_faults_test::rebuild_index"));
}

TEST(PlantedFaults, ATaskThatOnTakesToAPoolIsNamedByItsOwnFunction) {
  gyre::thread_pool pool({.workers = 1, .name = "images"});
  gyre::sync_wait(gyre::on(pool, scale_image()));
  EXPECT_THAT(gyre::trace::dump_text(),
              HasSubstr(" by coroutine planted_faults_test::scale_image"));
}

// Runs in the child process of the next test: writes a dump to `output` once it tells of a pause.
void watch_for_a_pause(int output) {
  gyre::loop_thread io;
  gyre::executor_watchdog watchdog;
  watchdog.watch(io.loop(), "io");
  static_cast<void>(::write(output, "begun\n", 6));
  const auto deadline = std::chrono::steady_clock::now() + 1min;
  std::string text;
  while (!text.contains("did not run") && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
    text = gyre::trace::dump_text({.slow = 300ms});
  }
  static_cast<void>(::write(output, text.data(), text.size()));
  watchdog.forget(io.loop());
}

std::string read_until(int input, std::string_view end) {
  std::string text;
  std::array<char, 4096> piece{};
  while (!text.contains(end)) {
    const auto count = ::read(input, piece.data(), piece.size());
    if (count <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  return text;
}

TEST(PlantedFaults, AProcessThatIsStoppedBySigstop) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    watch_for_a_pause(ends[1]);
    ::_exit(0);
  }
  const gyre::unique_fd input(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(read_until(input.get(), "begun\n"), "begun\n");
  int status = 0;
  // The watchdog does not notice a pause that falls between two of its waits.
  constexpr int attempts = 50;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    ::kill(child, SIGSTOP);
    ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status));
    std::this_thread::sleep_for(600ms);  // the pause that the child process reports
    ::kill(child, SIGCONT);
    pollfd output{input.get(), POLLIN, 0};
    if (::poll(&output, 1, 1000) > 0) break;
  }
  EXPECT_THAT(read_until(input.get(), "ago: "), HasSubstr("The process did not run for "));
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace planted_faults_test
