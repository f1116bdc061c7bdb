// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of http's headers about WebSockets, and those of
// docs/guide/websocket.md.
#include <gyre/gyre.hpp>
#include <tests/header_examples/support.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace http_websocket_examples_test {
namespace {

using header_examples::any_port;
using namespace std::chrono_literals;

// clang-format off
// gyre/http/websocket.hpp
gyre::task<> echo(gyre::http::websocket& socket) {
  while (auto message = co_await socket.receive()) co_await socket.send(*message);
}
// clang-format on

class HttpWebsocketExamples : public testing::Test {
 protected:
  void TearDown() override { gyre::sync_wait(loop, stop()); }
  gyre::task<> stop() { co_await server.stop_async(0s); }
  std::string url(std::string_view path) const {
    return "ws://" + server.local_endpoint().to_string() + std::string(path);
  }

  gyre::loop loop;
  gyre::http::server server{loop, any_port()};
};

gyre::task<std::string> talk(const std::string& url) {
  // clang-format off
  // gyre/http/connect_websocket.hpp
  auto socket = co_await gyre::http::connect_websocket(url);  // such as "wss://example.org/chat"
  co_await socket.send_text("hello");
  auto reply = co_await socket.receive();
  std::string text(reply->text());
  co_await socket.close();
  // clang-format on
  co_return text;
}

TEST_F(HttpWebsocketExamples, EchoesMessages) {
  // clang-format off
  // gyre/http/accept_websocket.hpp
  server.get("/echo", [](gyre::http::request& request) {
    return gyre::http::accept_websocket(request, echo);
  });
  // clang-format on
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, talk(url("/echo"))), "hello");
}

gyre::http::websocket_options settings() {
  // gyre/http/websocket_options.hpp
  gyre::http::websocket_options options;
  options.limits.message = 64 << 10;
  options.subprotocols = {"chat.v2", "chat.v1"};
  options.compression.enabled = true;
  return options;
}

void print(std::string_view text) { EXPECT_EQ(text, "score 3:1"); }
void log(const std::string& text, gyre::http::close_code code) {
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(static_cast<int>(code), 1007);
}

TEST(HttpWebsocketErrorExample, HasAMessageAndACode) {
  // clang-format off
  // gyre/http/websocket_error.hpp
  std::error_code error = gyre::http::websocket_errc::bad_utf8;
  log(error.message(), gyre::http::close_code_of(gyre::http::websocket_errc::bad_utf8));  // 1007
  // clang-format on
}

gyre::task<> inform(std::vector<gyre::http::websocket*> guests) {
  // clang-format off
  // gyre/http/prepared_message.hpp
  const auto news = gyre::http::prepared_message::text("score 3:1");
  for (gyre::http::websocket* each : guests) co_await each->send(news);
  // clang-format on
}

// gyre/http/websocket_broadcast.hpp
gyre::http::websocket_broadcast news;

gyre::task<> drop_messages(gyre::http::websocket& socket) {
  while (auto message = co_await socket.receive()) {
  }
}

// clang-format off
gyre::task<> follow(gyre::http::websocket& socket) {
  auto ending = gyre::when_any(drop_messages(socket), news.forward_to(socket));
  co_await std::move(ending);
}
// clang-format on

gyre::task<> read_news(const std::string& url) {
  const gyre::http::websocket_options options = settings();
  auto connecting = gyre::http::connect_websocket(url, options);
  gyre::http::websocket socket = co_await std::move(connecting);
  while (news.metrics().subscribers == 0) co_await gyre::sleep_for(1ms);
  news.send_text("score 3:1");  // on any thread
  auto message = co_await socket.receive();
  // gyre/http/websocket_message.hpp
  if (message->is_text()) print(message->text());
  co_await socket.close();
}

TEST_F(HttpWebsocketExamples, BroadcastsNews) {
  server.get("/news", [](const gyre::http::request& request) {
    return gyre::http::accept_websocket(request, follow, settings());
  });
  server.start();
  gyre::sync_wait(loop, read_news(url("/news")));
}

gyre::task<> be_informed(const std::string& url) {
  auto connecting = gyre::http::connect_websocket(url);
  gyre::http::websocket socket = co_await std::move(connecting);
  auto message = co_await socket.receive();
  print(message->text());
  co_await socket.close();
}

TEST_F(HttpWebsocketExamples, SendsPreparedMessages) {
  server.get("/guests", [](const gyre::http::request& request) {
    return gyre::http::accept_websocket(
        request, [](gyre::http::websocket& socket) { return inform({&socket}); });
  });
  server.start();
  gyre::sync_wait(loop, be_informed(url("/guests")));
}

TEST_F(HttpWebsocketExamples, EchoesByCallbacks) {
  // clang-format off
  // gyre/http/websocket_handlers.hpp
  server.get("/echo", [](gyre::http::request& request) {
    gyre::http::websocket_handlers handlers;
    handlers.on_message([](gyre::http::websocket_connection& socket,
                           gyre::http::websocket_message message) { socket.send(message); });
    return gyre::http::accept_websocket(request, std::move(handlers));
  });
  // clang-format on
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, talk(url("/echo"))), "hello");
}

TEST_F(HttpWebsocketExamples, SendsFromOutsideOfHandlers) {
  std::set<gyre::http::websocket_connection*> guests;
  server.get("/news", [&guests](const gyre::http::request& request) {
    gyre::http::websocket_handlers handlers;
    // clang-format off
    // gyre/http/websocket_connection.hpp
    handlers.on_open([&](gyre::http::websocket_connection& socket) { guests.insert(&socket); });
    handlers.on_close([&](gyre::http::websocket_connection& socket, std::error_code) {
      guests.erase(&socket);
    });
    // clang-format on
    return gyre::http::accept_websocket(request, std::move(handlers));
  });
  server.start();
  gyre::timer news_timer(loop, [&guests] {
    for (auto* each : guests) each->send_text("score 3:1");  // in turns of their loop
  });
  news_timer.start_every(1ms);
  gyre::sync_wait(loop, be_informed(url("/news")));
}

// clang-format off
std::string ask_by_callbacks(gyre::loop& loop, const std::string& url) {
  std::string reply;
  gyre::http::websocket_handlers handlers;
  handlers.on_open([](gyre::http::websocket_connection& socket) {
    socket.send_text("the time, please");
  });
  handlers.on_message([&](gyre::http::websocket_connection& socket,
                          gyre::http::websocket_message message) {
    reply = message.text();
    socket.close();
  });
  handlers.on_close([&](gyre::http::websocket_connection&, std::error_code) { loop.stop(); });
  gyre::spawn(loop, gyre::http::connect_websocket(url, std::move(handlers)));
  loop.run();
  return reply;
}
// clang-format on

TEST_F(HttpWebsocketExamples, AsksByCallbacks) {
  server.get("/echo", [](const gyre::http::request& request) {
    return gyre::http::accept_websocket(request, echo);
  });
  server.start();
  EXPECT_EQ(ask_by_callbacks(loop, url("/echo")), "the time, please");
}

// --- docs/guide/websocket.md ---

// clang-format off
gyre::http::websocket_broadcast room;

gyre::task<> take_part(gyre::http::websocket& guest) {
  while (auto message = co_await guest.receive()) room.send_text(message->text());
}

gyre::task<> chat(gyre::http::websocket& guest) {
  auto ending = gyre::when_any(take_part(guest), room.forward_to(guest));
  co_await std::move(ending);
}
// clang-format on

// clang-format off
gyre::task<> count_upload(gyre::http::websocket& socket) {
  std::size_t size = 0;
  while (auto piece = co_await socket.receive_piece()) {
    size += piece->bytes.size();
    if (!piece->is_last) continue;
    const std::string total = std::to_string(std::exchange(size, 0));
    co_await socket.send_text(total);
  }
}
// clang-format on

gyre::task<> visit(const std::string& chat_url, const std::string& upload_url) {
  auto connecting = gyre::http::connect_websocket(chat_url);
  gyre::http::websocket socket = co_await std::move(connecting);
  while (room.metrics().subscribers == 0) co_await gyre::sleep_for(1ms);
  co_await socket.send_text("hello, all");
  auto message = co_await socket.receive();
  EXPECT_EQ(message->text(), "hello, all");
  co_await socket.close();
  auto uploading = gyre::http::connect_websocket(upload_url);
  gyre::http::websocket upload = co_await std::move(uploading);
  const std::string bytes(3 << 20, 'x');
  co_await upload.send_text(bytes);
  auto total = co_await upload.receive();
  EXPECT_EQ(total->text(), std::to_string(bytes.size()));
  co_await upload.close();
}

// clang-format off
gyre::task<std::string> ask_once(const std::string& url) {
  gyre::http::websocket_options options;
  options.fields.set("Authorization", "Bearer secret");
  try {
    auto socket = co_await gyre::http::connect_websocket(url, options);
    co_await socket.send_text("the time, please");
    auto reply = co_await gyre::with_timeout(socket.receive(), 5s);
    std::string text(reply ? reply->text() : "closed");
    co_await socket.close();
    co_return text;
  } catch (const gyre::http::websocket_refused& refused) {
    co_return "refused by " + std::to_string(gyre::http::to_number(refused.status()));
  }
}

gyre::task<std::string> ask_beside_requests(gyre::http::client& client, const std::string& url) {
  gyre::http::websocket_options options;
  options.http2 = gyre::http::websocket_http2::if_connected;  // the default
  auto socket = co_await gyre::http::connect_websocket(client, url, options);
  co_await socket.send_text("the time, please");
  auto reply = co_await socket.receive();
  co_return std::string(reply ? reply->text() : "closed");
}
// clang-format on

TEST_F(HttpWebsocketExamples, RunTheGuide) {
  // clang-format off
  server.get("/chat", [](gyre::http::request& request) {
    return gyre::http::accept_websocket(request, chat,
                                        {.allowed_origins = {"https://example.org"}});
  });
  server.get("/upload", [](gyre::http::request& request) {
    return gyre::http::accept_websocket(request, count_upload);
  });
  // clang-format on
  server.get("/echo", [](const gyre::http::request& request) {
    return gyre::http::accept_websocket(request, echo);
  });
  server.start();
  gyre::sync_wait(loop, visit(url("/chat"), url("/upload")));
  EXPECT_EQ(gyre::sync_wait(loop, ask_once(url("/echo"))), "the time, please");
  EXPECT_EQ(gyre::sync_wait(loop, ask_once(url("/none"))), "refused by 404");
  gyre::http::client client(loop);
  EXPECT_EQ(gyre::sync_wait(loop, ask_beside_requests(client, url("/echo"))), "the time, please");
}

}  // namespace
}  // namespace http_websocket_examples_test
