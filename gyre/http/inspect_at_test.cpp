// SPDX-License-Identifier: Apache-2.0
// The inspector of a runtime, and the dumps that slow requests of its servers make it write.
#include <gyre/http/inspect_at.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/status.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/dump_writer.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace http_inspect_at_test {
namespace {

using namespace std::chrono_literals;
using gyre::runtime;
using gyre::task;
using gyre::http::inspect_at;
using gyre::http::inspector;
using testing::HasSubstr;

gyre::net::endpoint any_port() { return {gyre::net::ip_address::loopback_v4(), 0}; }

task<std::string> text_of(gyre::event_loop& loop, gyre::net::endpoint server, std::string path) {
  gyre::http::client client(loop);
  auto asking = client.get("http://" + server.to_string() + path);
  gyre::http::client_response response = co_await std::move(asking);
  EXPECT_EQ(response.status(), gyre::http::status::ok);
  co_return response.take_body();
}

TEST(InspectAt, ShowsTheLoopsAndThePoolOfARuntime) {
  inspector* pages = nullptr;
  runtime rt(
      {.loops = 2, .inspect = inspect_at(any_port(), {}, [&](inspector& one) { pages = &one; })});
  ASSERT_NE(pages, nullptr);
  rt.registry().make_counter("orders_total", "Orders.").add(3);
  std::string text;
  EXPECT_EQ(rt.run([&](runtime& self) -> task<> {
    task<std::string> asking = text_of(self.loops()[0], pages->local_endpoint(), "/metrics");
    text = co_await std::move(asking);
  }),
            0);
  EXPECT_THAT(text, HasSubstr("gyre_executor_up{name=\"loop 0\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("gyre_executor_up{name=\"loop 1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("gyre_executor_up{name=\"pool\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("orders_total 3\n"));
}

TEST(InspectAt, ListensOnASocketOfTheUserAlone) {
  const gyre::test::temporary_folder folder;
  const std::string path = folder / "inspect";
  const runtime rt({.loops = 1, .inspect = inspect_at("unix:" + path)});
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST(InspectAt, RefusesAnAddressThatOtherMachinesReach) {
  EXPECT_THROW(runtime({.loops = 1, .inspect = inspect_at("0.0.0.0:0")}), std::invalid_argument);
}

TEST(InspectAt, ARuntimeWithoutAnInspectorHasARegistry) {
  runtime rt({.loops = 1});
  rt.registry().make_counter("orders_total", "Orders.").add(3);
  std::string text;
  EXPECT_EQ(rt.run([&](runtime& self) -> task<> {
    auto collecting = self.registry().collect();
    const gyre::metrics::exposition page = co_await std::move(collecting);
    text = page.text();
  }),
            0);
  EXPECT_THAT(text, HasSubstr("orders_total 3\n"));
  EXPECT_THAT(text, HasSubstr("gyre_loop_turns_total{name=\"loop 0\"}"));
}

TEST(InspectAt, ARequestThatTakesLongLeavesATrace) {
  const gyre::test::temporary_folder folder;
  std::mutex mutex;
  std::condition_variable changed;
  std::string cause;
  gyre::trace::dump_writer_options dumps{.folder = folder.path(), .max_request = 10ms};
  dumps.on_dump = [&](const gyre::trace::slow_dump& dump) {
    const std::lock_guard lock(mutex);
    cause = dump.cause;
    changed.notify_all();
  };
  runtime rt({.loops = 1, .slow_dumps = std::move(dumps)});
  EXPECT_EQ(rt.run([&](runtime& self) -> task<> {
    gyre::http::server server(self.loops(), any_port());
    server.get("/report/{id}", [](gyre::http::request&) -> task<gyre::http::response> {
      co_await gyre::sleep_for(20ms);
      co_return gyre::http::response::text("done");
    });
    server.start();
    task<std::string> asking = text_of(self.loops()[0], server.local_endpoint(), "/report/7");
    EXPECT_EQ(co_await std::move(asking), "done");
    auto stopping = server.stop_async();
    co_await std::move(stopping);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !cause.empty(); });
  }),
            0);
  // The request, or its handler if the processor was taken from it.
  EXPECT_THAT(cause, HasSubstr(" GET /report/{id} took "));
  EXPECT_TRUE(std::filesystem::exists(folder / "gyre-trace-0.json"));
}

}  // namespace
}  // namespace http_inspect_at_test
