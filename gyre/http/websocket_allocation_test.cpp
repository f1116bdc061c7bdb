// SPDX-License-Identifier: Apache-2.0
// Tests that a message in steady state allocates nothing: every allocation of this program is
// counted.
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/connect_websocket.hpp>
#include <gyre/http/server.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace http_websocket_allocation_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::websocket;
using gyre::http::websocket_options;
using gyre::testing::allocations;

task<> echo(websocket& socket) {
  while (auto message = co_await socket.receive()) {
    co_await socket.send(*message);
  }
}

class HttpWebsocketAllocation : public testing::Test {
 protected:
  std::size_t allocations_for(std::size_t size, bool compresses) {
    const websocket_options options{.compression = {.enabled = compresses}};
    server_.emplace(loop_, gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0));
    server_->get("/", [options](const gyre::http::request& request) {
      return gyre::http::accept_websocket(request, echo, options);
    });
    server_->start();
    const std::size_t count = gyre::sync_wait(loop_, talk(size, options));
    gyre::sync_wait(loop_, stop());
    server_.reset();
    return count;
  }

 private:
  task<> stop() { co_await server_->stop_async(0s); }
  task<std::size_t> talk(std::size_t size, websocket_options options) {
    const std::string url = "ws://" + server_->local_endpoint().to_string();
    auto connecting = gyre::http::connect_websocket(url, options);
    websocket socket = co_await std::move(connecting);
    const std::string text(size, 'x');
    std::size_t before = 0;
    constexpr int warm_up = 20;
    constexpr int measured = 300;
    for (int i = 0; i < warm_up + measured; ++i) {
      if (i == warm_up) before = allocations();
      co_await socket.send_text(text);
      const auto message = co_await socket.receive();
      EXPECT_EQ(message->bytes.size(), size);
    }
    const std::size_t found = allocations() - before;
    co_await socket.close();
    co_return found;
  }

  gyre::loop loop_;
  std::optional<gyre::http::server> server_;
};

TEST_F(HttpWebsocketAllocation, NoneForAMessage) {
  EXPECT_EQ(allocations_for(16, false), 0u);
  EXPECT_EQ(allocations_for(3000, false), 0u);
}

TEST_F(HttpWebsocketAllocation, NoneForACompressedMessage) {
  EXPECT_EQ(allocations_for(100, true), 0u);
  EXPECT_EQ(allocations_for(3000, true), 0u);
}

}  // namespace
}  // namespace http_websocket_allocation_test
