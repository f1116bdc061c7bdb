// SPDX-License-Identifier: Apache-2.0
// websocket_fixture: a server of WebSockets, and its clients on the same loop, for tests.
#pragma once

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::http::test {

/// Gives up a receive of a client whose server echoes, and receives again.
inline task<> receive_after_a_time_limit(websocket& socket) {
  auto limited = as_result(with_timeout(socket.receive(), std::chrono::milliseconds(1)));
  const auto none = co_await std::move(limited);
  EXPECT_FALSE(none);
  EXPECT_TRUE(socket.is_open());
  co_await socket.send_text("hello");
  const auto message = co_await socket.receive();
  EXPECT_TRUE(message && message->text() == "hello");
  co_await socket.close();
  EXPECT_EQ(socket.close_status(), close_code::normal);
}

class websocket_fixture : public testing::Test {
 protected:
  using websocket_function = std::function<task<>(websocket&)>;

  // Serves the path /chat by responses that `respond` makes, and /plain.
  void serve_responses(std::function<response(const request&)> respond,
                       server_options server_settings = {}) {
    on.emplace(loop, net::endpoint(net::ip_address::loopback_v4(), 0), server_settings);
    on->get("/chat", std::move(respond));
    on->get("/plain", [](request&) { return status::ok; });
    on->on_error([this](const request&, const std::exception_ptr&) { ++errors; });
    on->start();
  }
  void serve(websocket_function serving, websocket_options options = {},
             server_options server_settings = {}) {
    serve_responses(
        [serving = std::move(serving), options](const request& request) {
          return accept_websocket(request, serving, options);
        },
        std::move(server_settings));
  }
  std::string url(std::string_view path = "/chat") const {
    return "ws://" + on->local_endpoint().to_string() + std::string(path);
  }
  void run(task<> work) { sync_wait(loop, std::move(work)); }
  void TearDown() override {
    if (on) sync_wait(loop, stop());
  }
  task<> stop() { co_await on->stop_async(std::chrono::seconds(0)); }

  gyre::loop loop;
  std::optional<server> on;
  int errors = 0;
};

}  // namespace gyre::http::test
