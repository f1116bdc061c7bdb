// SPDX-License-Identifier: Apache-2.0
// Tests that a message in steady state allocates nothing: every allocation of this program is
// counted.
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/connect_websocket.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/server.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

TEST(HttpWebsocketMemoryOfCompression, IsSharedBySocketsWithoutContexts) {
  using gyre::http::detail::receiving;
  using gyre::http::detail::websocket_role;
  using gyre::http::detail::websocket_session;
  const gyre::http::detail::deflate_agreement agreement{.keeps_context = false,
                                                        .keeps_peer_context = false};
  constexpr std::int64_t count = 200;
  std::vector<std::unique_ptr<websocket_session>> sessions;
  const std::string text(1000, 'x');
  std::int64_t before = 0;
  for (std::int64_t i = 0; i <= count; ++i) {
    for (const auto role : {websocket_role::server, websocket_role::client}) {
      sessions.push_back(std::make_unique<websocket_session>(
          role, gyre::http::detail::settings_pointer::share({}),
          gyre::http::websocket_compression{.min_size = 0},
          gyre::http::detail::websocket_agreement{.deflate = agreement}));
    }
    gyre::io::buffer output;
    auto rest = std::as_bytes(std::span(text));
    websocket_session& sender = *sessions[sessions.size() - 2];
    sender.begin_message(gyre::http::websocket_kind::text, text.size());
    while (!sender.append_data(rest, output)) {
    }
    auto input = output.bytes();
    ASSERT_LT(input.size(), text.size());
    ASSERT_EQ(sessions.back()->next(input, receiving::messages), websocket_session::event::message);
    ASSERT_EQ(sessions.back()->data().text(), text);
    ASSERT_EQ(sessions.back()->next(input, receiving::messages),
              websocket_session::event::wants_input);
    if (i == 0) before = gyre::testing::bytes_in_use();
  }
  EXPECT_LT((gyre::testing::bytes_in_use() - before) / count, 2048);
}

}  // namespace
}  // namespace http_websocket_allocation_test
