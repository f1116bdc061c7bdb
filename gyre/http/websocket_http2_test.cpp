// SPDX-License-Identifier: Apache-2.0
// Tests of clients' WebSockets over HTTP/2 (RFC 8441), with the server of this library, and with
// servers whose frames the test writes.
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/connect_websocket.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/http2_client_test_support.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/http/websocket_fixture_test_support.hpp>
#include <gyre/http/websocket_test_support.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace http_websocket_http2_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::http::test;
using gyre::task;
using gyre::http::client;
using gyre::http::client_options;
using gyre::http::close_code;
using gyre::http::connect_websocket;
using gyre::http::errc;
using gyre::http::websocket;
using gyre::http::websocket_errc;
using gyre::http::websocket_handlers;
using gyre::http::websocket_http2;
using gyre::http::websocket_message;
using gyre::http::websocket_options;
using gyre::net::test::peer;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

websocket_options always_http2() {
  websocket_options options;
  options.http2 = websocket_http2::always;
  return options;
}

client_options knowing_http2() {
  client_options options;
  options.http2.prior_knowledge = true;
  return options;
}

std::error_code code_of(const std::exception_ptr& error) {
  try {
    if (error != nullptr) std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    return failure.code();
  } catch (...) {
    return std::make_error_code(std::errc::state_not_recoverable);
  }
  return {};
}

// --- With the server of this library ---

task<> echo(websocket& socket) {
  while (auto message = co_await socket.receive()) {
    co_await socket.send(*message);
  }
}

class HttpWebsocketOverHttp2 : public websocket_fixture {
 protected:
  std::string http_url() const { return "http" + url("/plain").substr(2); }
  void serve_echo(websocket_options options = {}) { serve(echo, std::move(options)); }
  std::size_t http2_connections() { return on->metrics().http2.connections; }
};

task<> exchange_sizes(websocket& socket) {
  for (const std::size_t size : {0U, 1U, 125U, 65'536U, 300'000U}) {
    const std::string text(size, 'w');
    co_await socket.send_text(text);
    const auto received = co_await socket.receive();
    EXPECT_TRUE(received && received->is_text() && received->text() == text) << size;
  }
  co_await socket.close(close_code::normal, "done");
  EXPECT_EQ(socket.close_status(), close_code::normal);
}

TEST_F(HttpWebsocketOverHttp2, SharesTheConnectionOfRequests) {
  serve_echo();
  const auto talk = [this]() -> task<> {
    client shared(loop, knowing_http2());
    const auto before = co_await shared.get(http_url());
    EXPECT_EQ(before.major_version(), 2U);
    {
      auto connecting = connect_websocket(shared, url());
      websocket socket = co_await std::move(connecting);
      EXPECT_EQ(shared.metrics().open, 1U);
      EXPECT_EQ(on->metrics().tcp.connections, 1U);
      auto exchanging = exchange_sizes(socket);
      co_await std::move(exchanging);
    }
    const auto after = co_await shared.get(http_url());
    EXPECT_EQ(after.status(), gyre::http::status::ok);
    EXPECT_EQ(http2_connections(), 1U);
    EXPECT_EQ(on->metrics().tcp.accepted, 1U);
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketOverHttp2, AClientReceivesAfterATimeLimit) {
  serve_echo();
  const auto talk = [this]() -> task<> {
    client shared(loop, knowing_http2());
    const websocket_options options = always_http2();
    auto connecting = connect_websocket(shared, url(), options);
    websocket socket = co_await std::move(connecting);
    auto receiving = gyre::http::test::receive_after_a_time_limit(socket);
    co_await std::move(receiving);
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketOverHttp2, AgreesOnCompressionAndASubprotocol) {
  websocket_options serving;
  serving.compression.enabled = true;
  serving.subprotocols = {"b"};
  serve_echo(serving);
  const auto talk = [this]() -> task<> {
    websocket_options options = always_http2();
    options.subprotocols = {"a", "b"};
    const client_options connecting_options = knowing_http2();
    auto connecting = connect_websocket(url(), options, connecting_options);
    websocket socket = co_await std::move(connecting);
    EXPECT_TRUE(socket.is_compressed());
    EXPECT_EQ(socket.subprotocol(), "b");
    EXPECT_EQ(http2_connections(), 1U);
    auto exchanging = exchange_sizes(socket);
    co_await std::move(exchanging);
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketOverHttp2, UsesHttp1WithoutAConnectionOrIfToldSo) {
  serve_echo();
  const auto talk = [this]() -> task<> {
    client shared(loop, knowing_http2());
    {
      auto connecting = connect_websocket(shared, url());
      websocket socket = co_await std::move(connecting);
      EXPECT_EQ(http2_connections(), 0U);
      auto exchanging = exchange_sizes(socket);
      co_await std::move(exchanging);
    }
    const auto answer = co_await shared.get(http_url());
    EXPECT_EQ(answer.major_version(), 2U);
    websocket_options options;
    options.http2 = websocket_http2::never;
    auto connecting = connect_websocket(shared, url(), options);
    websocket socket = co_await std::move(connecting);
    EXPECT_EQ(on->metrics().tcp.connections, 2U);
    auto exchanging = exchange_sizes(socket);
    co_await std::move(exchanging);
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketOverHttp2, CallsHandlers) {
  serve_echo();
  const auto talk = [this]() -> task<> {
    client shared(loop, knowing_http2());
    std::string reply;
    std::optional<std::error_code> end;
    websocket_handlers handlers;
    handlers.on_open([](gyre::http::websocket_connection& socket) { socket.send_text("hello"); });
    handlers.on_message([&](gyre::http::websocket_connection& socket, websocket_message message) {
      reply = message.text();
      socket.close();
    });
    handlers.on_close(
        [&](gyre::http::websocket_connection&, std::error_code error) { end = error; });
    auto serving = connect_websocket(shared, url(), std::move(handlers), always_http2());
    co_await std::move(serving);
    EXPECT_EQ(reply, "hello");
    EXPECT_EQ(end, std::error_code());
    EXPECT_EQ(shared.metrics().open, 1U);
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketOverHttp2, TellsWhyAServerRefuses) {
  serve_responses([](const gyre::http::request& request) {
    return request.fields().contains("Cookie")
               ? gyre::http::accept_websocket(request, echo)
               : gyre::http::response::text("no", gyre::http::status::forbidden);
  });
  const auto talk = [this]() -> task<> {
    client_options connecting_options = knowing_http2();
    connecting_options.cookies = true;
    client shared(loop, connecting_options);
    const websocket_options options = always_http2();
    auto refused = as_result(connect_websocket(shared, url(), options));
    const auto result = co_await std::move(refused);
    EXPECT_FALSE(result);
    try {
      if (!result) std::rethrow_exception(result.error());
    } catch (const gyre::http::websocket_refused& error) {
      EXPECT_EQ(error.status(), gyre::http::status::forbidden);
    }
    // The cookies of the client are sent, too.
    const auto target = gyre::http::url::parse(http_url());
    shared.cookies().receive(*target, "a=1");
    auto connecting = connect_websocket(shared, url(), options);
    websocket socket = co_await std::move(connecting);
    EXPECT_TRUE(socket.is_open());
    EXPECT_EQ(shared.metrics().open, 1U);
    co_await socket.close();
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketOverHttp2, RunsOverTlsAndOutlivesItsClient) {
  gyre::http::server_options settings;
  settings.tcp.transport =
      gyre::tls::server_transport(gyre::tls::tls_context::server(gyre::tls::test::serving()));
  serve(echo, {}, settings);
  const auto talk = [this]() -> task<> {
    client_options connecting_options;
    connecting_options.tls = gyre::tls::tls_context::client(gyre::tls::test::trusting());
    const std::string secure =
        "wss://localhost:" + std::to_string(on->local_endpoint().port()) + "/chat";
    std::optional<client> shared(std::in_place, loop, connecting_options);
    const websocket_options options = always_http2();
    auto connecting = connect_websocket(*shared, secure, options);
    websocket socket = co_await std::move(connecting);
    shared.reset();
    EXPECT_EQ(http2_connections(), 1U);
    auto exchanging = exchange_sizes(socket);
    co_await std::move(exchanging);
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketOverHttp2, ClosesWhenTheServerStops) {
  serve_echo();
  const auto talk = [this]() -> task<> {
    const client_options connecting_options = knowing_http2();
    const websocket_options options = always_http2();
    auto connecting = connect_websocket(url(), options, connecting_options);
    websocket socket = co_await std::move(connecting);
    on->stop(1h);
    const auto message = co_await socket.receive();
    EXPECT_FALSE(message);
    EXPECT_EQ(socket.close_status(), close_code::going_away);
  };
  run(talk());
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketOverHttp2, RefusesAMovedOrClosedClient) {
  serve_echo();
  const auto talk = [this]() -> task<> {
    client first(loop, knowing_http2());
    client second(std::move(first));
    // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested
    auto from_moved = as_result(connect_websocket(first, url()));
    const auto moved = co_await std::move(from_moved);
    EXPECT_EQ(code_of(moved.error()), gyre::io::errc::not_open);
    second.close();
    auto from_closed = as_result(connect_websocket(second, url()));
    const auto closed = co_await std::move(from_closed);
    EXPECT_EQ(code_of(closed.error()), gyre::io::errc::not_open);
  };
  run(talk());
}

// --- With servers whose frames the test writes ---

const std::string allowing = setting_entry(8, 1);  // SETTINGS_ENABLE_CONNECT_PROTOCOL

/// A task that runs on the loop. Must outlive the loop's next turns until it has ended.
class running_task {
 public:
  running_task(gyre::event_loop& loop, task<> work) {
    gyre::spawn(loop, run(std::move(work)),
                {.stop = stop_.get_token(), .on_error = [this](const std::exception_ptr& error) {
                   error_ = error;
                   done_ = true;
                 }});
  }
  running_task(const running_task&) = delete;
  running_task& operator=(const running_task&) = delete;

  bool done() const noexcept { return done_; }
  void request_stop() noexcept { stop_.request_stop(); }
  std::error_code error() const { return code_of(error_); }
  std::string message() const {
    try {
      if (error_ != nullptr) std::rethrow_exception(error_);
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }

 private:
  task<> run(task<> work) {
    auto working = as_result(std::move(work));
    const auto result = co_await std::move(working);
    if (!result) error_ = result.error();
    done_ = true;
  }

  gyre::inplace_stop_source stop_;
  std::exception_ptr error_;
  bool done_ = false;
};

class HttpWebsocketHttp2Frames : public http2_client_fixture {
 protected:
  ~HttpWebsocketHttp2Frames() override {
    for (running_task& each : tasks_) each.request_stop();
    for (running_task& each : tasks_) finish(each);
    socket.reset();
  }

  running_task& run(task<> work) { return tasks_.emplace_back(virtual_time.loop, std::move(work)); }
  using http2_client_fixture::finish;
  running_task& finish(running_task& work) {
    virtual_time.turn_until([&] { return work.done(); });
    return work;
  }
  /// Begins to open `socket`, without compression and keep-alive.
  running_task& connect(websocket_http2 use = websocket_http2::always) {
    websocket_options options;
    options.compression.enabled = false;
    options.timeouts.keep_alive = {};
    options.http2 = use;
    return run(connect(options));
  }
  /// Opens a socket on the first stream of a new connection.
  server_end& open(std::string_view settings = allowing) {
    running_task& connecting = connect();
    server_end& end = accept_http2(settings);
    wait_for(end, "HEADERS 1");
    end.send(response_frame(1, "200", 0));
    finish(connecting);
    EXPECT_EQ(connecting.message(), "");
    end.frames.clear();
    return end;
  }
  running_task& receive_message() { return run(receive_one()); }
  running_task& send_message(std::string text) { return run(send_one(std::move(text))); }
  /// The request of HTTP/1.1 on a new connection, which is accepted.
  std::string accept_http1() {
    peer& plain = accept();
    const std::string head = receive_head(plain);
    constexpr std::string_view name = "Sec-WebSocket-Key: ";
    const std::size_t begin = head.find(name) + name.size();
    const std::string key = head.substr(begin, head.find("\r\n", begin) - begin);
    plain.send(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: " +
        gyre::http::detail::accept_key_of(key) + "\r\n\r\n");
    return head;
  }

  std::optional<websocket> socket;
  std::string received;  // the last message

 private:
  task<> connect(websocket_options options) {
    auto connecting = connect_websocket(*client, "ws" + server.url("/chat").substr(4), options);
    socket.emplace(co_await std::move(connecting));
  }
  task<> receive_one() {
    const auto message = co_await socket->receive();
    received = message ? std::string(message->text()) : "closed";
  }
  task<> send_one(std::string text) { co_await socket->send_text(text); }

  std::list<running_task> tasks_;
};

TEST_F(HttpWebsocketHttp2Frames, SendsAnExtendedConnect) {
  make(speaking_http2());
  running_task& connecting = connect();
  server_end& end = accept_http2(allowing);
  EXPECT_EQ(wait_for(end, "HEADERS 1"),
            "HEADERS 1 :method: CONNECT;:protocol: websocket;:scheme: http;:authority: " +
                server.authority() +
                ";:path: /chat;sec-websocket-version: 13;user-agent: gyre;accept: */*;\n");
  end.send(response_frame(1, "103", 0) + response_frame(1, "200", 0) +
           frame(data_frame, 0, 1, frame(fin | 1, "hello", false)));
  finish(connecting);
  EXPECT_EQ(connecting.message(), "");
  finish(receive_message());
  EXPECT_EQ(received, "hello");
}

TEST_F(HttpWebsocketHttp2Frames, WaitsForTheSettings) {
  make(speaking_http2());
  running_task& connecting = connect();
  server_end at(accept());
  settle();
  EXPECT_THAT(wait_for(at, "SETTINGS"), Not(HasSubstr("HEADERS")));
  EXPECT_FALSE(connecting.done());
  at.send(frame(settings_frame, 0, 0, allowing));
  EXPECT_THAT(wait_for(at, "HEADERS 1"), HasSubstr("HEADERS 1 :method: CONNECT;"));
  at.send(response_frame(1, "200", 0));
  finish(connecting);
  EXPECT_EQ(connecting.message(), "");
}

TEST_F(HttpWebsocketHttp2Frames, WaitsForTheSettingsForALimitedTime) {
  client_options options = speaking_http2();
  options.timeouts.first_byte = 3s;
  make(options);
  running_task& connecting = connect();
  server_end at(accept());
  wait_for(at, "SETTINGS");
  settle();
  virtual_time.advance(4s);
  finish(connecting);
  EXPECT_EQ(connecting.error(), errc::timed_out);
  EXPECT_THAT(connecting.message(), HasSubstr("waiting for SETTINGS"));
}

TEST_F(HttpWebsocketHttp2Frames, AServerThatDoesNotAllowItGetsHttp1) {
  make(speaking_http2());
  answer_first();
  running_task& required = finish(connect());
  EXPECT_EQ(required.error(), websocket_errc::bad_handshake);
  EXPECT_THAT(required.message(), HasSubstr("does not allow WebSockets over HTTP/2"));
  running_task& connecting = connect(websocket_http2::if_connected);
  EXPECT_THAT(accept_http1(), StartsWith("GET /chat HTTP/1.1\r\n"));
  EXPECT_EQ(finish(connecting).message(), "");
}

TEST_F(HttpWebsocketHttp2Frames, AnOpenConnectionIsUsed) {
  make(speaking_http2());
  server_end& end = answer_first(allowing);
  running_task& connecting = connect(websocket_http2::if_connected);
  wait_for(end, "HEADERS 3");
  end.send(response_frame(3, "200", 0));
  EXPECT_EQ(finish(connecting).message(), "");
}

TEST_F(HttpWebsocketHttp2Frames, OneConnectionOfAHostIsLeftToRequests) {
  client_options options = speaking_http2();
  options.connections_per_host = 1;
  make(options);
  answer_first(allowing);
  running_task& connecting = connect(websocket_http2::if_connected);
  EXPECT_THAT(accept_http1(), StartsWith("GET /chat HTTP/1.1\r\n"));
  EXPECT_EQ(finish(connecting).message(), "");
}

TEST_F(HttpWebsocketHttp2Frames, HalfOfTheStreamsAreLeftToRequests) {
  make(speaking_http2());
  server_end& end = answer_first(allowing + setting_entry(3, 2));
  running_task& first = connect(websocket_http2::if_connected);
  wait_for(end, "HEADERS 3");
  end.send(response_frame(3, "200", 0));
  EXPECT_EQ(finish(first).message(), "");
  websocket kept = std::move(*socket);
  running_task& second = connect(websocket_http2::if_connected);
  EXPECT_THAT(accept_http1(), StartsWith("GET /chat HTTP/1.1\r\n"));
  EXPECT_EQ(finish(second).message(), "");
  // The end of a socket makes room for another one.
  kept = std::move(*socket);
  EXPECT_THAT(wait_for(end, "RST_STREAM"), HasSubstr("RST_STREAM 3 8\n"));
  running_task& third = connect(websocket_http2::if_connected);
  wait_for(end, "HEADERS 5");
  end.send(response_frame(5, "200", 0));
  EXPECT_EQ(finish(third).message(), "");
}

TEST_F(HttpWebsocketHttp2Frames, AStreamThatIsRefusedUnprocessedBecomesHttp1) {
  make(speaking_http2());
  server_end& end = answer_first(allowing);
  std::uint32_t stream = 1;
  for (const std::uint32_t error : {7U, 13U}) {  // REFUSED_STREAM, HTTP_1_1_REQUIRED
    stream += 2;
    running_task& connecting = connect(websocket_http2::if_connected);
    wait_for(end, "HEADERS " + std::to_string(stream));
    end.send(reset_stream(stream, error));
    EXPECT_THAT(accept_http1(), StartsWith("GET /chat HTTP/1.1\r\n"));
    EXPECT_EQ(finish(connecting).message(), "");
  }
  // Requests still use HTTP/2.
  running_request& request = get();
  wait_for(end, "HEADERS 7");
  end.send(response_frame(7));
  EXPECT_EQ(finish(request).message(), "");
}

TEST_F(HttpWebsocketHttp2Frames, AStreamAboveGoawayIsRepeatedOnce) {
  make(speaking_http2());
  running_task& connecting = connect();
  server_end& first = accept_http2(allowing);
  wait_for(first, "HEADERS 1");
  first.send(goaway(0));
  server_end& second = accept_http2(allowing);
  wait_for(second, "HEADERS 1");
  second.send(response_frame(1, "200", 0));
  EXPECT_EQ(finish(connecting).message(), "");

  running_task& refused = connect();
  wait_for(second, "HEADERS 3");
  second.send(reset_stream(3, 7));
  wait_for(second, "HEADERS 5");
  second.send(reset_stream(5, 7));
  EXPECT_EQ(finish(refused).error(), errc::request_refused);
}

TEST_F(HttpWebsocketHttp2Frames, GoawayKeepsASocketThatIsOpen) {
  make(speaking_http2());
  server_end& end = open();
  end.send(goaway(1));
  settle(end);
  running_task& sending = send_message("still here");
  EXPECT_THAT(wait_for(end, "DATA 1 "), HasSubstr("DATA 1 "));
  EXPECT_EQ(finish(sending).message(), "");
  end.send(frame(data_frame, 0, 1, frame(fin | 1, "so am I", false)));
  finish(receive_message());
  EXPECT_EQ(received, "so am I");
  // A request gets a connection of its own.
  running_request& request = get();
  server_end& other = accept_http2();
  wait_for(other, "HEADERS 1");
  other.send(response_frame(1));
  EXPECT_EQ(finish(request).message(), "");
}

TEST_F(HttpWebsocketHttp2Frames, ASendWaitsForTheWindows) {
  make(speaking_http2());
  server_end& end = open(allowing + setting_entry(4, 100));
  running_task& sending = send_message(std::string(500, 'x'));
  EXPECT_THAT(wait_for(end, "DATA 1 "), HasSubstr("DATA 1 "));
  settle(end);
  EXPECT_FALSE(sending.done());
  end.frames.clear();
  end.send(window_update(1, 1000));
  // The rest of 8 bytes of a header and 500 of the message.
  EXPECT_THAT(wait_for(end, "DATA 1 "), HasSubstr("DATA 1 408 bytes\n"));
  EXPECT_EQ(finish(sending).message(), "");
}

TEST_F(HttpWebsocketHttp2Frames, AWindowThatNeverOpensIsATimeLimit) {
  client_options options = speaking_http2();
  options.timeouts.send = 5s;
  options.http2.ping_interval = {};
  make(options);
  server_end& end = open(allowing + setting_entry(4, 10));
  running_task& sending = send_message(std::string(500, 'x'));
  wait_for(end, "DATA 1 ");
  settle(end);
  virtual_time.advance(6s);
  EXPECT_EQ(finish(sending).error(), errc::timed_out);
  socket.reset();
  EXPECT_THAT(wait_for(end, "RST_STREAM"), HasSubstr("RST_STREAM 1 8\n"));
}

TEST_F(HttpWebsocketHttp2Frames, AReceiveGivesCredit) {
  client_options options = speaking_http2();
  options.http2.stream_window = 40'000;
  make(options);
  server_end& end = open();
  const std::string message = frame(fin | 2, std::string(30'000, 'x'), false);
  end.send(frame(data_frame, 0, 1, message.substr(0, 16'000)) +
           frame(data_frame, 0, 1, message.substr(16'000)));
  settle(end);
  EXPECT_THAT(end.frames, Not(HasSubstr("WINDOW_UPDATE 1 ")));
  finish(receive_message());
  EXPECT_EQ(received.size(), 30'000U);
  EXPECT_THAT(wait_for(end, "WINDOW_UPDATE 1 "), HasSubstr("WINDOW_UPDATE 1 30004\n"));
}

TEST_F(HttpWebsocketHttp2Frames, DataBeyondTheWindowEndsTheConnection) {
  client_options options = speaking_http2();
  options.http2.stream_window = 1000;
  make(options);
  server_end& end = open();
  end.send(frame(data_frame, 0, 1, frame(fin | 2, std::string(15'000, 'x'), false)));
  finish(receive_message());
  EXPECT_THAT(wait_for(end, "RST_STREAM"), HasSubstr("RST_STREAM 1 3\n"));
}

TEST_F(HttpWebsocketHttp2Frames, AResetEndsTheSocketOnly) {
  make(speaking_http2());
  server_end& end = open();
  running_task& receiving = receive_message();
  settle();
  end.send(reset_stream(1, 2));
  EXPECT_EQ(finish(receiving).error(), errc::stream_reset);
  EXPECT_THAT(receiving.message(), HasSubstr("INTERNAL_ERROR"));
  running_task& sending = finish(send_message("x"));
  EXPECT_EQ(sending.error(), websocket_errc::closed);
  running_request& request = get();
  wait_for(end, "HEADERS 3");
  end.send(response_frame(3));
  EXPECT_EQ(finish(request).message(), "");
}

TEST_F(HttpWebsocketHttp2Frames, TheEndOfTheStreamEndsTheSocket) {
  make(speaking_http2());
  server_end& end = open();
  end.send(frame(data_frame, end_stream, 1));
  EXPECT_EQ(finish(receive_message()).error(), websocket_errc::ended);
  socket.reset();
  EXPECT_THAT(wait_for(end, "DATA 1 end"), EndsWith("DATA 1 end \n"));
}

TEST_F(HttpWebsocketHttp2Frames, TheEndOfTheStreamWithinAFrameEndsTheSocket) {
  make(speaking_http2());
  server_end& end = open();
  running_task& receiving = receive_message();
  settle();
  end.send(frame(data_frame, end_stream, 1, frame(fin | 1, "hello", false).substr(0, 4)));
  EXPECT_EQ(finish(receiving).error(), websocket_errc::ended);
  EXPECT_FALSE(socket->is_open());
  EXPECT_FALSE(socket->close_status());
  socket.reset();
  EXPECT_THAT(wait_for(end, "DATA 1 end"), EndsWith("DATA 1 end \n"));
}

TEST_F(HttpWebsocketHttp2Frames, TheEndOfTheConnectionEndsTheSocket) {
  make(speaking_http2());
  server_end& end = open();
  running_task& receiving = receive_message();
  settle();
  end.socket->end_sending();
  EXPECT_EQ(finish(receiving).error(), websocket_errc::ended);
}

TEST_F(HttpWebsocketHttp2Frames, AnAcceptanceWithoutAStreamIsTheEnd) {
  make(speaking_http2());
  running_task& connecting = connect();
  server_end& end = accept_http2(allowing);
  wait_for(end, "HEADERS 1");
  end.send(response_frame(1, "200"));
  EXPECT_EQ(finish(connecting).message(), "");
  EXPECT_EQ(finish(receive_message()).error(), websocket_errc::ended);
}

TEST_F(HttpWebsocketHttp2Frames, ASocketThatIsDroppedResetsItsStream) {
  make(speaking_http2());
  server_end& end = open();
  socket.reset();
  EXPECT_THAT(wait_for(end, "RST_STREAM"), HasSubstr("RST_STREAM 1 8\n"));
}

TEST_F(HttpWebsocketHttp2Frames, AStopEndsTheHandshake) {
  make(speaking_http2());
  running_task& connecting = connect();
  server_end& end = accept_http2(allowing);
  wait_for(end, "HEADERS 1");
  connecting.request_stop();
  finish(connecting);
  EXPECT_FALSE(socket);
  EXPECT_THAT(wait_for(end, "RST_STREAM"), HasSubstr("RST_STREAM 1 8\n"));
}

TEST_F(HttpWebsocketHttp2Frames, ASilentServerIsATimeLimit) {
  client_options options = speaking_http2();
  options.timeouts.first_byte = 3s;
  make(options);
  running_task& connecting = connect();
  server_end& end = accept_http2(allowing);
  wait_for(end, "HEADERS 1");
  settle(end);
  virtual_time.advance(4s);
  EXPECT_EQ(finish(connecting).error(), errc::timed_out);
  EXPECT_THAT(wait_for(end, "RST_STREAM"), HasSubstr("RST_STREAM 1 8\n"));
}

}  // namespace
}  // namespace http_websocket_http2_test
