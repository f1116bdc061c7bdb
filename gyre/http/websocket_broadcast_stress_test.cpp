// SPDX-License-Identifier: Apache-2.0
// Threads broadcast to subscribers on several loops, some of which leave in the middle.
#include <gyre/http/websocket_broadcast.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/connect_websocket.hpp>
#include <gyre/http/server.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <tests/support/sanitizers.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace http_websocket_broadcast_stress_test {
namespace {

using gyre::task;
using gyre::http::connect_websocket;
using gyre::http::websocket;
using gyre::http::websocket_broadcast;

constexpr std::size_t senders = 2;
constexpr int each_sends = gyre::test::unless_sanitized(2000, 10);

task<> drop_messages(websocket& socket) {
  while (auto message = co_await socket.receive()) {
  }
}

// Receives "SENDER NUMBER", and checks that no message of a sender is missing. Leaves after
// `max_messages`.
task<> subscribe(std::string url, std::size_t max_messages, std::atomic<int>& subscribers) {
  auto connecting = connect_websocket(url);
  websocket socket = co_await std::move(connecting);
  std::array<int, senders> next = {-1, -1};
  for (std::size_t count = 0; count != max_messages; ++count) {
    const auto message = co_await socket.receive();
    if (!message) {
      ADD_FAILURE() << "the server has closed the socket";
      co_return;
    }
    const std::string text(message->text());
    if (text == "hello") {
      ++subscribers;
      continue;
    }
    const std::size_t sender = std::stoul(text);
    const int number = std::stoi(text.substr(text.find(' ')));
    if (next.at(sender) >= 0) {
      EXPECT_EQ(number, next.at(sender));
    }
    next.at(sender) = number + 1;
  }
  co_await socket.close();
}

TEST(HttpWebsocketBroadcastStress, ThreadsSendToSubscribersOnSeveralLoops) {
  constexpr int clients = 4;
  constexpr std::size_t all = senders * each_sends;
  websocket_broadcast news({.capacity = all + 1});
  gyre::loop_pool loops(2);
  gyre::http::server server(loops, gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0));
  const auto follow = [&](websocket& socket) -> task<> {
    co_await socket.send_text("hello");
    auto ending = gyre::when_any(drop_messages(socket), news.forward_to(socket));
    co_await std::move(ending);
  };
  server.get("/news", [&](const gyre::http::request& request) {
    return gyre::http::accept_websocket(request, follow);
  });
  server.start();
  const std::string url = "ws://" + server.local_endpoint().to_string() + "/news";

  std::atomic<int> subscribers = 0;
  std::vector<std::jthread> threads;
  for (int client = 0; client != clients; ++client) {
    threads.emplace_back([&, client] {
      gyre::loop loop;
      // Half of the clients leave early, while others still get messages.
      const std::size_t count = client % 2 == 0 ? 1 + all : 1 + all / 4;
      gyre::sync_wait(loop, subscribe(url, count, subscribers));
    });
  }
  while (subscribers != clients || news.metrics().subscribers != clients) std::this_thread::yield();
  for (std::size_t sender = 0; sender != senders; ++sender) {
    threads.emplace_back([&news, sender] {
      for (int i = 0; i != each_sends; ++i) {
        news.send_text(std::to_string(sender) + ' ' + std::to_string(i));
      }
    });
  }
  threads.clear();
  gyre::sync_wait(server.stop_async());
  EXPECT_EQ(news.metrics().messages, all);
  EXPECT_EQ(news.metrics().lost, 0u);
  EXPECT_EQ(news.metrics().disconnected, 0u);
}

}  // namespace
}  // namespace http_websocket_broadcast_stress_test
