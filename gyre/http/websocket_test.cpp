// SPDX-License-Identifier: Apache-2.0
// Tests of clients' WebSockets with the server of this library, and with servers that misbehave.
#include <gyre/http/websocket.hpp>

#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/connect_websocket.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/http/websocket_fixture_test_support.hpp>
#include <gyre/http/websocket_test_support.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace http_websocket_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::client_options;
using gyre::http::close_code;
using gyre::http::connect_websocket;
using gyre::http::prepared_message;
using gyre::http::slow_subscriber;
using gyre::http::websocket;
using gyre::http::websocket_broadcast;
using gyre::http::websocket_errc;
using gyre::http::websocket_options;
using gyre::http::test::close_payload;
using gyre::http::test::fin;
using gyre::http::test::frame;
using testing::HasSubstr;

gyre::net::endpoint any_port() { return {gyre::net::ip_address::loopback_v4(), 0}; }

task<> echo(websocket& socket) {
  while (auto message = co_await socket.receive()) {
    co_await socket.send(*message);
  }
}

task<> drop_messages(websocket& socket) {
  while (auto message = co_await socket.receive()) {
  }
}

std::string noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, ' ');
  for (char& each : text) each = static_cast<char>(random());
  return text;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class HttpWebsocket : public gyre::http::test::websocket_fixture {};

task<> exchange_sizes(std::string url, websocket_options options, bool must_be_compressed) {
  auto connecting = connect_websocket(url, options);
  websocket socket = co_await std::move(connecting);
  EXPECT_EQ(socket.is_compressed(), must_be_compressed);
  for (const std::size_t size : std::vector<std::size_t>{0, 1, 125, 126, 65535, 65536, 300'000}) {
    const std::string random = noise(size, static_cast<unsigned>(size));
    co_await socket.send_binary(bytes_of(random));
    const auto binary = co_await socket.receive();
    EXPECT_TRUE(binary && !binary->is_text() && binary->text() == random) << size;
    const std::string words(size, 'w');
    co_await socket.send_text(words);
    const auto text = co_await socket.receive();
    EXPECT_TRUE(text && text->is_text() && text->text() == words) << size;
  }
  co_await socket.close(close_code::normal, "done");
  EXPECT_EQ(socket.close_status(), close_code::normal);
  EXPECT_FALSE(socket.is_open());
}

TEST_F(HttpWebsocket, ExchangesMessagesOfAllSizes) {
  serve(echo);
  run(exchange_sizes(url(), {}, false));
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocket, ExchangesCompressedMessages) {
  for (const unsigned bits : {8U, 9U, 12U, 15U}) {
    for (const bool keeps : {true, false}) {
      websocket_options options{.compression = {.enabled = true,
                                                .window_bits = bits,
                                                .peer_window_bits = bits,
                                                .keeps_context = keeps,
                                                .keeps_peer_context = !keeps}};
      serve(echo, options);
      run(exchange_sizes(url(), {}, true));
      options.compression.min_size = 0;
      run(exchange_sizes(url(), options, true));
      run(exchange_sizes(url(), {.compression = {.enabled = false}}, false));
      TearDown();
      on.reset();
    }
  }
  EXPECT_EQ(errors, 0);
}

task<> send_in_pieces(std::string url) {
  auto connecting = connect_websocket(url);
  websocket socket = co_await std::move(connecting);
  for (const std::size_t size : std::vector<std::size_t>{0, 10, 65536, 3 << 20}) {
    const std::string random = noise(size, 1);
    auto sending = [](websocket& target, const std::string& bytes) -> task<> {
      co_await target.send_binary(bytes_of(bytes));
    }(socket, random);
    co_await std::move(sending);
    const auto count = co_await socket.receive();
    EXPECT_EQ(count->text(), std::to_string(size));
  }
  co_await socket.close();
}

TEST_F(HttpWebsocket, ReceivesMessagesAboveTheLimitInPieces) {
  serve(
      [](websocket& socket) -> task<> {
        std::size_t size = 0;
        while (auto piece = co_await socket.receive_piece()) {
          EXPECT_LE(piece->bytes.size(), 65536u);
          size += piece->bytes.size();
          if (!piece->is_last) continue;
          const std::string text = std::to_string(size);
          co_await socket.send_text(text);
          size = 0;
        }
      },
      {.limits = {.message = 10}, .compression = {.enabled = true}});
  run(send_in_pieces(url()));
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocket, TellsWhyAServerRefuses) {
  serve(echo);
  websocket_options options;
  options.fields.set("Origin", "https://elsewhere.example");
  const auto expect_status = [&](std::string target, unsigned expected) -> task<> {
    auto connecting = gyre::as_result(connect_websocket(target, options));
    const auto result = co_await std::move(connecting);
    EXPECT_FALSE(result);
    try {
      std::rethrow_exception(result.error());
    } catch (const gyre::http::websocket_refused& refused) {
      EXPECT_EQ(static_cast<unsigned>(refused.status()), expected);
      EXPECT_EQ(refused.code(), websocket_errc::refused);
      EXPECT_THAT(refused.what(), HasSubstr(std::to_string(expected)));
    }
  };
  run(expect_status(url(), 403));
  run(expect_status(url("/none"), 404));
}

TEST_F(HttpWebsocket, NegotiatesASubprotocol) {
  serve(echo, {.subprotocols = {"b", "a"}});
  const auto selected = [&](std::vector<std::string> offered) -> task<std::string> {
    websocket_options options;
    options.subprotocols = std::move(offered);
    auto connecting = connect_websocket(url(), options);
    websocket socket = co_await std::move(connecting);
    std::string found(socket.subprotocol());
    co_await socket.close();
    co_return found;
  };
  EXPECT_EQ(gyre::sync_wait(loop, selected({"a", "b"})), "b");
  EXPECT_EQ(gyre::sync_wait(loop, selected({"a"})), "a");
  EXPECT_EQ(gyre::sync_wait(loop, selected({"c"})), "");
}

TEST_F(HttpWebsocket, RunsOverTls) {
  gyre::http::server_options settings;
  settings.tcp.transport =
      gyre::tls::server_transport(gyre::tls::tls_context::server(gyre::tls::test::serving()));
  serve(echo, {.compression = {.enabled = true}}, settings);
  const auto talk = [&]() -> task<> {
    client_options connecting_options;
    connecting_options.tls = gyre::tls::tls_context::client(gyre::tls::test::trusting());
    const std::string secure =
        "wss://localhost:" + std::to_string(on->local_endpoint().port()) + "/chat";
    const websocket_options options;
    auto connecting = connect_websocket(secure, options, connecting_options);
    websocket socket = co_await std::move(connecting);
    const std::string text(300'000, 's');
    co_await socket.send_text(text);
    const auto message = co_await socket.receive();
    EXPECT_TRUE(message && message->text() == text);
    co_await socket.close();
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocket, DoesNotMixTheMessagesOfSeveralSenders) {
  serve(echo, {.compression = {.enabled = true}});
  const auto send_many = [](websocket& socket, char letter) -> task<> {
    for (std::size_t i = 0; i < 20; ++i) {
      const std::string text(i * 10'000, letter);
      co_await socket.send_text(text);
    }
  };
  const auto check_all = [](websocket& socket) -> task<> {
    for (int i = 0; i < 60; ++i) {
      const auto message = co_await socket.receive();
      const std::string_view text = message->text();
      EXPECT_EQ(text.find_first_not_of(text.substr(0, 1)), text.npos);
    }
  };
  const auto talk = [&]() -> task<> {
    auto connecting = connect_websocket(url());
    websocket socket = co_await std::move(connecting);
    auto all = gyre::when_all(send_many(socket, 'a'), send_many(socket, 'b'),
                              send_many(socket, 'c'), check_all(socket));
    co_await std::move(all);
    co_await socket.close();
  };
  run(talk());
}

TEST_F(HttpWebsocket, FailsAfterItWasMovedFrom) {
  serve(echo);
  const auto talk = [&]() -> task<> {
    auto connecting = connect_websocket(url());
    websocket first = co_await std::move(connecting);
    websocket second = std::move(first);
    EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): the subject of the test
    EXPECT_THROW(static_cast<void>(first.receive()), std::system_error);
    EXPECT_THROW(static_cast<void>(first.send_text("x")), std::system_error);
    co_await second.send_text("x");
    co_await second.close();
  };
  run(talk());
}

// --- Servers that misbehave ---

std::string switching(const std::string& accept, std::string_view more = "") {
  return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
         "Sec-WebSocket-Accept: " +
         accept + "\r\n" + std::string(more) + "\r\n";
}

// Answers one handshake by `respond`, which gets the value of Sec-WebSocket-Accept.
class misbehaving_server {
 public:
  using responder = std::function<std::string(const std::string& accept)>;

  explicit misbehaving_server(gyre::event_loop& loop) : listener_(loop, any_port()) {}
  std::string url() const { return "ws://" + listener_.local_endpoint().to_string() + "/"; }
  task<> serve(responder respond) {
    auto answering = answer(std::move(respond));
    gyre::net::tcp_stream peer = co_await std::move(answering);
    peer.shutdown(gyre::net::shutdown_side::send);
    for (;;) {
      const auto bytes = co_await peer.receive();
      if (bytes.empty()) co_return;
      received += bytes.text();
    }
  }
  // Sends the frames after the client's first bytes, and resets the connection.
  task<> send_and_reset(std::string frames) {
    auto answering = answer([](const std::string& accept) { return switching(accept); });
    gyre::net::tcp_stream peer = co_await std::move(answering);
    static_cast<void>(co_await peer.receive());
    auto writing = peer.write_all(frames);
    co_await std::move(writing);
    peer.options().set_linger(0s);
  }

  std::string received;

 private:
  task<gyre::net::tcp_stream> answer(responder respond) {
    auto accepting = listener_.accept();
    gyre::net::tcp_stream peer = co_await std::move(accepting);
    gyre::io::buffer in;
    auto reading = peer.read_until(in, "\r\n\r\n");
    const std::size_t size = co_await std::move(reading);
    const std::string head(in.text().substr(0, size));
    const std::string_view name = "Sec-WebSocket-Key: ";
    const std::size_t begin = head.find(name) + name.size();
    const std::string key = head.substr(begin, head.find("\r\n", begin) - begin);
    const std::string response = respond(gyre::http::detail::accept_key_of(key));
    auto writing = peer.write_all(response);
    co_await std::move(writing);
    co_return peer;
  }

  gyre::net::tcp_listener listener_;
};

// The reply to what came before a receive waited is sent all the same.
TEST_F(HttpWebsocket, RepliesToFramesThatComeWithTheHandshake) {
  const auto reply_to = [&](std::string frames) {
    misbehaving_server server(loop);
    const auto talk = [&]() -> task<> {
      auto connecting = connect_websocket(server.url());
      websocket socket = co_await std::move(connecting);
      for (bool has_ended = false; !has_ended;) {
        auto receive_task = gyre::as_result(socket.receive());
        const auto message = co_await std::move(receive_task);
        has_ended = !message || !*message;
      }
    };
    const auto both = [&]() -> task<> {
      auto all = gyre::when_all(
          server.serve([&](const std::string& accept) { return switching(accept) + frames; }),
          talk());
      co_await std::move(all);
    };
    run(both());
    return server.received;
  };
  // The code of the client's Close frame, which is masked; 0 without a frame.
  const auto code_in = [](const std::string& bytes) {
    const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    if (bytes.size() < 8 || at(0) != (fin | 8)) return 0;
    return (at(2) ^ at(6)) << 8 | (at(3) ^ at(7));
  };
  const std::string close = frame(fin | 8, close_payload(1001), false);
  const std::string hello = frame(fin | 1, "hello", false);
  EXPECT_EQ(code_in(reply_to(close)), 1001);
  EXPECT_EQ(code_in(reply_to(hello + close)), 1001);
  EXPECT_EQ(code_in(reply_to(hello + hello + frame(fin | 3, "", false))), 1002);
  const std::string pong = reply_to(frame(fin | 9, "", false) + close);
  EXPECT_EQ(pong.substr(0, 1), frame(fin | 10, "").substr(0, 1));
  EXPECT_EQ(code_in(pong.substr(6)), 1001);
}

// A server that is gone cannot take the Pong, and has sent its messages all the same.
TEST_F(HttpWebsocket, AClientReceivesWhatCameBeforeItsServerWasGone) {
  misbehaving_server server(loop);
  std::vector<std::string> received;
  std::error_code code;
  const auto talk = [&]() -> task<> {
    auto connecting = connect_websocket(server.url());
    websocket socket = co_await std::move(connecting);
    co_await socket.send_text("go");
    try {
      while (const auto message = co_await socket.receive()) received.emplace_back(message->text());
    } catch (const std::system_error& failed) {
      code = failed.code();
    }
  };
  const auto both = [&]() -> task<> {
    const std::string hello = frame(fin | 1, "hello", false);
    auto all =
        gyre::when_all(server.send_and_reset(frame(fin | 9, "", false) + hello + hello), talk());
    co_await std::move(all);
  };
  run(both());
  EXPECT_EQ(received, (std::vector<std::string>{"hello", "hello"}));
  EXPECT_TRUE(code) << "the server closed without a Close frame";
}

TEST_F(HttpWebsocket, FailsForMisbehavingServers) {
  const auto failure = [&](misbehaving_server::responder respond) {
    misbehaving_server server(loop);
    std::error_code code;
    const auto talk = [&]() -> task<> {
      auto connecting = gyre::as_result(connect_websocket(server.url()));
      auto opened = co_await std::move(connecting);
      std::exception_ptr error;
      if (opened) {
        auto receiving = gyre::as_result(opened->receive());
        const auto received = co_await std::move(receiving);
        if (!received) error = received.error();
        websocket ended = std::move(*opened);
      } else {
        error = opened.error();
      }
      if (!error) co_return;
      try {
        std::rethrow_exception(error);
      } catch (const std::system_error& failed) {
        code = failed.code();
      }
    };
    const auto both = [&]() -> task<> {
      auto all = gyre::when_all(server.serve(std::move(respond)), talk());
      co_await std::move(all);
    };
    run(both());
    return code;
  };
  using gyre::http::errc;
  EXPECT_EQ(
      failure([](const std::string&) { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"; }),
      websocket_errc::refused);
  EXPECT_EQ(failure([](const std::string&) { return switching("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="); }),
            websocket_errc::bad_handshake);
  EXPECT_EQ(failure([](const std::string& accept) {
              return "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: " + accept +
                     "\r\n\r\n";
            }),
            websocket_errc::bad_handshake);
  for (const std::string_view more :
       {"Sec-WebSocket-Protocol: unasked\r\n", "Sec-WebSocket-Extensions: other\r\n",
        "Sec-WebSocket-Extensions: permessage-deflate; unknown\r\n",
        "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=16\r\n",
        "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n",
        "Sec-WebSocket-Extensions: permessage-deflate, permessage-deflate\r\n",
        "Sec-WebSocket-Extensions: permessage-deflate;;\r\n"}) {
    EXPECT_EQ(failure([&](const std::string& accept) { return switching(accept, more); }),
              websocket_errc::bad_handshake)
        << more;
  }
  EXPECT_EQ(failure([](const std::string&) { return ""; }), errc::no_response);
  EXPECT_EQ(failure([](const std::string&) { return "HTTP/1.1 101 Swit"; }), errc::truncated);
  EXPECT_EQ(failure([](const std::string& accept) { return switching(accept); }),
            websocket_errc::ended);
  EXPECT_EQ(failure([](const std::string& accept) { return switching(accept) + "\x81\x05hel"; }),
            websocket_errc::ended);
  EXPECT_EQ(failure([](const std::string& accept) {
              return switching(accept) + frame(fin | 1, "masked");
            }),
            websocket_errc::bad_frame);
  EXPECT_EQ(failure([](const std::string& accept) {
              return switching(accept, "Sec-WebSocket-Extensions: permessage-deflate\r\n") +
                     frame(0xc1, "\x06", false);
            }),
            websocket_errc::bad_compression);
}

// --- Broadcasts ---

TEST_F(HttpWebsocket, BroadcastsToAllSubscribers) {
  for (const bool compresses : {false, true}) {
    websocket_broadcast news({.compression = {.enabled = compresses}});
    serve(
        [&](websocket& socket) -> task<> {
          auto ending = gyre::when_any(drop_messages(socket), news.forward_to(socket));
          co_await std::move(ending);
        },
        {.compression = {.enabled = compresses, .keeps_context = false}});
    const auto subscribe = [&](int number) -> task<> {
      const websocket_options options{.compression = {.enabled = number % 2 == 0}};
      auto connecting = connect_websocket(url(), options);
      websocket socket = co_await std::move(connecting);
      for (int i = 0; i < 50; ++i) {
        const auto message = co_await socket.receive();
        EXPECT_EQ(message->text(), "message " + std::string(100, 'x') + std::to_string(i));
      }
      co_await socket.close();
    };
    const auto send = [&]() -> task<> {
      while (news.metrics().subscribers != 20) co_await gyre::sleep_for(1ms);
      for (int i = 0; i < 50; ++i) {
        news.send_text("message " + std::string(100, 'x') + std::to_string(i));
      }
    };
    const auto all = [&]() -> task<> {
      std::vector<task<>> tasks;
      for (int i = 0; i < 20; ++i) tasks.push_back(subscribe(i));
      tasks.push_back(send());
      auto together = gyre::when_all(std::move(tasks));
      co_await std::move(together);
    };
    run(all());
    EXPECT_EQ(news.metrics().messages, 50u);
    EXPECT_EQ(news.metrics().deliveries, 1000u);
    EXPECT_EQ(news.metrics().lost, 0u);
    TearDown();
    on.reset();
    EXPECT_EQ(news.metrics().subscribers, 0u);
  }
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocket, ABroadcastDropsSlowSubscribersOrTheirMessages) {
  for (const auto policy : {slow_subscriber::disconnected, slow_subscriber::loses_messages}) {
    websocket_broadcast news({.capacity = 4, .policy = policy});
    serve([&](websocket& socket) -> task<> {
      auto ending = gyre::when_any(drop_messages(socket), news.forward_to(socket));
      co_await std::move(ending);
    });
    const auto talk = [&]() -> task<> {
      auto connecting = connect_websocket(url());
      websocket socket = co_await std::move(connecting);
      while (news.metrics().subscribers == 0) co_await gyre::sleep_for(1ms);
      for (int i = 0; i < 10; ++i) news.send_text(std::to_string(i));  // without a wait
      std::vector<std::string> messages;
      while (auto message = co_await socket.receive()) {
        messages.emplace_back(message->text());
        if (message->text() == "9") co_await socket.close();
      }
      if (policy == slow_subscriber::disconnected) {
        EXPECT_EQ(messages, std::vector<std::string>{});
        EXPECT_EQ(socket.close_status(), close_code::policy_violation);
      } else {
        EXPECT_EQ(messages, (std::vector<std::string>{"6", "7", "8", "9"}));
      }
    };
    run(talk());
    EXPECT_EQ(news.metrics().lost, 6u);
    EXPECT_EQ(news.metrics().disconnected, policy == slow_subscriber::disconnected ? 1u : 0u);
    TearDown();
    on.reset();
  }
}

TEST_F(HttpWebsocket, SendsAPreparedMessageFromAClient) {
  serve(echo, {.compression = {.enabled = true}});
  const auto talk = [&]() -> task<> {
    const auto prepared = prepared_message::text(std::string(1000, 'p'), {.enabled = true});
    auto connecting = connect_websocket(url());
    websocket socket = co_await std::move(connecting);
    co_await socket.send(prepared);
    const auto message = co_await socket.receive();
    EXPECT_EQ(message->text(), std::string(1000, 'p'));
    co_await socket.close();
  };
  run(talk());
  EXPECT_THROW(static_cast<void>(prepared_message::text("\xff")), std::invalid_argument);
  EXPECT_THROW(websocket_broadcast({.compression = {.window_bits = 7}}), std::invalid_argument);
}

TEST_F(HttpWebsocket, AClientReceivesAfterATimeLimit) {
  serve(echo);
  const auto talk = [this]() -> task<> {
    auto connecting = connect_websocket(url());
    websocket socket = co_await std::move(connecting);
    auto receiving = gyre::http::test::receive_after_a_time_limit(socket);
    co_await std::move(receiving);
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

// --- Stops at any moment ---

TEST_F(HttpWebsocket, MayBeStoppedAtAnyMoment) {
  serve(echo, {.compression = {.enabled = true}});
  // Bytes that hardly compress: else a buffer holds a thousand messages, all for one turn.
  const std::string bytes = noise(100'000, 5);
  const auto talk = [&](unsigned seed) -> task<> {
    std::mt19937 random(seed);
    const websocket_options options{.compression = {.enabled = seed % 2 == 0}};
    auto connecting = connect_websocket(url(), options);
    websocket socket = co_await std::move(connecting);
    const auto send = [&]() -> task<> {
      for (;;) co_await socket.send_binary(bytes_of(bytes).first(random() % bytes.size()));
    };
    auto both = gyre::when_all(send(), drop_messages(socket));
    co_await std::move(both);
  };
  const auto all = [&]() -> task<> {
    std::mt19937 random(23);
    for (unsigned i = 0; i < 300; ++i) {
      const auto limit = std::chrono::microseconds(random() % 3000);
      auto limited = gyre::as_result(gyre::with_timeout(talk(i), limit));
      const auto result = co_await std::move(limited);
      EXPECT_FALSE(result);
    }
    // The server still serves.
    auto connecting = connect_websocket(url());
    websocket socket = co_await std::move(connecting);
    co_await socket.send_text("alive");
    const auto message = co_await socket.receive();
    EXPECT_EQ(message->text(), "alive");
    co_await socket.close();
  };
  run(all());
  EXPECT_EQ(errors, 0);
}

}  // namespace
}  // namespace http_websocket_test
