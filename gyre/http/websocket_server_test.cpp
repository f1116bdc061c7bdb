// SPDX-License-Identifier: Apache-2.0
// Tests of a server's WebSockets against peers that send bytes, in virtual time.
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/access_log.hpp>
#include <gyre/http/server_test_support.hpp>
#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/http/websocket_test_support.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/when_all.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace http_websocket_server_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::close_code;
using gyre::http::request;
using gyre::http::websocket;
using gyre::http::websocket_errc;
using gyre::http::websocket_options;
using gyre::http::test::close_payload;
using gyre::http::test::fin;
using gyre::http::test::frame;
using gyre::http::test::get;
using gyre::http::test::peer;
using gyre::http::test::websocket_fields;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

task<> echo(websocket& socket) {
  while (auto message = co_await socket.receive()) {
    co_await socket.send(*message);
  }
}

class HttpWebsocketServer : public gyre::http::test::server_fixture {
 protected:
  using handler = std::function<task<>(websocket&)>;

  void serve(handler serving, websocket_options options = {}) {
    make();
    on->get("/", [serving = std::move(serving), options](const request& request) {
      return gyre::http::accept_websocket(request, serving, options);
    });
    on->on_error([this](const request&, const std::exception_ptr&) { ++errors; });
    on->start();
  }
  // Serves sockets whose messages are dropped, and collects the errors of their receives.
  void serve_dropping(std::vector<std::error_code>& failures) {
    serve([&failures](websocket& socket) -> task<> {
      try {
        while (auto message = co_await socket.receive()) {
        }
      } catch (const std::system_error& error) {
        failures.push_back(error.code());
      }
    });
  }
  // Opens a WebSocket, and drops the head of the response.
  peer open(std::string_view more = "") {
    peer client = connect();
    client.send(get("/", std::string(websocket_fields).append(more)));
    head = next_response(client);
    EXPECT_THAT(head, StartsWith("HTTP/1.1 101 "));
    return client;
  }
  // Receives at least `size` bytes after the head of the response, unless the connection ends.
  std::string receive(peer& client, std::size_t size) {
    virtual_time.turn_until([&] {
      client.receive();
      return client.ended || client.text.size() >= size;
    });
    return std::exchange(client.text, {});
  }
  std::string exchange(peer& client, const std::string& bytes, std::size_t size) {
    client.send(bytes);
    return receive(client, size);
  }
  std::string all_of(peer& client) { return receive(client, std::string::npos); }
  // Expects that the server sends nothing for a time.
  void expect_silence(peer& client, std::chrono::seconds time) {
    virtual_time.settle();
    virtual_time.advance(time);
    virtual_time.settle();
    client.receive();
    EXPECT_EQ(client.text, "");
  }
  // Expects a ping after each silent half minute, and the end of the connection when the fourth one
  // gets no Pong.
  void answer_three_pings_then_none(peer& client) {
    for (int i = 0; i < 3; ++i) {
      expect_silence(client, 29s);
      virtual_time.advance(2s);
      EXPECT_EQ(receive(client, 2), frame(fin | 9, "", false));
      client.send(frame(fin | 10, ""));
    }
    virtual_time.settle();
    virtual_time.advance(31s);
    EXPECT_EQ(receive(client, 2), frame(fin | 9, "", false));
    virtual_time.settle();
    virtual_time.advance(21s);
    EXPECT_EQ(all_of(client), "");
  }
  static std::string closing(close_code code, std::string_view reason = "") {
    return frame(fin | 8, close_payload(static_cast<unsigned>(code), reason), false);
  }
  static std::string failing(websocket_errc code) {
    return closing(gyre::http::close_code_of(code), gyre::http::make_error_code(code).message());
  }

  std::string head;
  int errors = 0;
};

TEST_F(HttpWebsocketServer, AcceptsTheHandshakeOfTheRfc) {
  serve(echo);
  peer client = open();
  EXPECT_EQ(head,
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nConnection: upgrade\r\n\r\n");
  EXPECT_EQ(exchange(client, frame(fin | 1, "hello") + frame(2, "a") + frame(fin, "b"), 11),
            frame(fin | 1, "hello", false) + frame(fin | 2, "ab", false));
  client.send(frame(fin | 8, close_payload(1000, "done")));
  EXPECT_EQ(all_of(client), closing(close_code::normal));
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketServer, TakesFramesThatComeWithTheHandshake) {
  serve(echo);
  peer client = connect();
  client.send(get("/", websocket_fields) + frame(fin | 1, "early"));
  next_response(client);
  EXPECT_EQ(receive(client, 7), frame(fin | 1, "early", false));
}

TEST_F(HttpWebsocketServer, RefusesOtherRequests) {
  serve(echo);
  on.reset();
  serve(echo, {.allowed_origins = {}});
  const auto without = [](std::string_view name, std::string_view replacement = "") {
    std::string fields(websocket_fields);
    const std::size_t begin = fields.find(name);
    fields.replace(begin, fields.find("\r\n", begin) + 2 - begin, replacement);
    return get("/", fields);
  };
  EXPECT_THAT(answer_to(get("/")),
              AllOf(StartsWith("HTTP/1.1 426 "), HasSubstr("\r\nUpgrade: websocket\r\n"),
                    HasSubstr("\r\nSec-WebSocket-Version: 13\r\n")));
  EXPECT_THAT(answer_to(without("Upgrade: websocket", "Upgrade: h2c\r\n")),
              StartsWith("HTTP/1.1 426 "));
  EXPECT_THAT(answer_to(without("Connection: ")), StartsWith("HTTP/1.1 426 "));
  EXPECT_THAT(answer_to(without("Sec-WebSocket-Version")), StartsWith("HTTP/1.1 426 "));
  for (const std::string_view version : {"8", "0", "14", "13, 8", "x"}) {
    EXPECT_THAT(answer_to(without("Sec-WebSocket-Version",
                                  "Sec-WebSocket-Version: " + std::string(version) + "\r\n")),
                AllOf(StartsWith("HTTP/1.1 426 "), HasSubstr("\r\nSec-WebSocket-Version: 13\r\n")));
  }
  EXPECT_THAT(answer_to(without("Sec-WebSocket-Key")), StartsWith("HTTP/1.1 400 "));
  for (const std::string_view key : {"", "x", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZXg=",
                                     "?GhlIHNhbXBsZSBub25jZQ=="}) {
    EXPECT_THAT(
        answer_to(without("Sec-WebSocket-Key", "Sec-WebSocket-Key: " + std::string(key) + "\r\n")),
        StartsWith("HTTP/1.1 400 "));
  }
  EXPECT_THAT(answer_to(get("/", std::string(websocket_fields) +
                                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")),
              StartsWith("HTTP/1.1 400 "));
  peer old = connect();
  old.send("GET / HTTP/1.0\r\nHost: a\r\n" + std::string(websocket_fields) + "\r\n");
  EXPECT_THAT(next_response(old), StartsWith("HTTP/1.1 426 "));
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketServer, RefusesOtherMethods) {
  make();
  on->post("/", [](const request& request) { return gyre::http::accept_websocket(request, echo); });
  on->start();
  EXPECT_THAT(answer_to("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" +
                        std::string(websocket_fields) + "\r\n"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: GET\r\n")));
}

TEST_F(HttpWebsocketServer, LetsInPagesOfItsOwnHost) {
  serve(echo);
  const auto status_for = [&](std::string_view host, std::string_view origin) {
    peer client = connect();
    client.send("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n" + std::string(origin) +
                std::string(websocket_fields) + "\r\n");
    return next_response(client).substr(9, 3);
  };
  EXPECT_EQ(status_for("a", ""), "101");
  EXPECT_EQ(status_for("a", "Origin: http://a\r\n"), "101");
  EXPECT_EQ(status_for("a", "Origin: https://A\r\n"), "101");
  EXPECT_EQ(status_for("a:80", "Origin: http://a\r\n"), "101");
  EXPECT_EQ(status_for("a", "Origin: https://a:443\r\n"), "101");
  EXPECT_EQ(status_for("a:8080", "Origin: http://a:8080\r\n"), "101");
  EXPECT_EQ(status_for("[::1]:8080", "Origin: http://[::1]:8080\r\n"), "101");
  for (const std::string_view other :
       {"http://b", "http://a:8080", "http://a.b", "http://a@b", "http://a/x", "null", "a", "",
        "http://", "http://b http://a", "https://a:80"}) {
    EXPECT_EQ(status_for("a", "Origin: " + std::string(other) + "\r\n"), "403") << other;
  }
  EXPECT_EQ(status_for("a", "Origin: http://a\r\nOrigin: http://a\r\n"), "403");
}

TEST_F(HttpWebsocketServer, LetsInListedOrigins) {
  serve(echo, {.allowed_origins = {"https://example.org", "http://localhost:3000",
                                   "https://*.example.net"}});
  const auto status_for = [&](std::string_view origin) {
    return answer_to(get("/", std::string(websocket_fields) + std::string(origin))).substr(9, 3);
  };
  EXPECT_EQ(status_for(""), "101");
  EXPECT_EQ(status_for("Origin: https://example.org\r\n"), "101");
  EXPECT_EQ(status_for("Origin: http://localhost:3000\r\n"), "101");
  EXPECT_EQ(status_for("Origin: https://chat.example.net\r\n"), "101");
  for (const std::string_view other :
       {"http://example.org", "http://a", "null", "", "https://example.net",
        "https://a.b.example.net", "https://example.org https://example.org"}) {
    EXPECT_EQ(status_for("Origin: " + std::string(other) + "\r\n"), "403") << other;
  }
  on.reset();
  serve(echo, {.allowed_origins = {"*"}});
  EXPECT_EQ(status_for("Origin: http://anywhere\r\n"), "101");
  EXPECT_EQ(status_for("Origin: null\r\n"), "101");
  for (const char* malformed : {"null", "https://Example.org", "example.org", "https://a/"}) {
    on.reset();
    serve(echo, {.allowed_origins = {malformed}});
    EXPECT_EQ(status_for(""), "500") << malformed;
  }
  EXPECT_EQ(errors, 4);
}

TEST_F(HttpWebsocketServer, SelectsASubprotocol) {
  std::vector<std::string> selected;
  serve(
      [&](websocket& socket) -> task<> {
        selected.emplace_back(socket.subprotocol());
        co_return;
      },
      {.subprotocols = {"chat.v2", "chat.v1"}});
  open("Sec-WebSocket-Protocol: chat.v1, chat.v2\r\n");
  EXPECT_THAT(head, HasSubstr("\r\nSec-WebSocket-Protocol: chat.v2\r\n"));
  open("Sec-WebSocket-Protocol: other\r\nSec-WebSocket-Protocol: chat.v1\r\n");
  EXPECT_THAT(head, HasSubstr("\r\nSec-WebSocket-Protocol: chat.v1\r\n"));
  open("Sec-WebSocket-Protocol: CHAT.V1\r\n");
  EXPECT_THAT(head, Not(HasSubstr("Sec-WebSocket-Protocol")));
  virtual_time.turn_until([&] { return selected.size() == 3; });
  EXPECT_EQ(selected, (std::vector<std::string>{"chat.v2", "chat.v1", ""}));
  on.reset();
  serve(echo, {.subprotocols = {"no token"}});
  EXPECT_THAT(answer_to(get("/", websocket_fields)), StartsWith("HTTP/1.1 500 "));
  EXPECT_EQ(errors, 1);
}

TEST_F(HttpWebsocketServer, NegotiatesCompression) {
  const auto extension_for = [&](std::string_view offer, gyre::http::websocket_compression use) {
    on.reset();
    use.enabled = use.enabled.value_or(true);
    serve(echo, {.compression = use});
    open("Sec-WebSocket-Extensions: " + std::string(offer) + "\r\n");
    const std::string_view name = "Sec-WebSocket-Extensions: ";
    const std::size_t begin = head.find(name);
    if (begin == std::string::npos) return std::string("none");
    return head.substr(begin + name.size(), head.find("\r\n", begin) - begin - name.size());
  };
  const std::string deflate = "permessage-deflate";
  EXPECT_EQ(extension_for(deflate, {.window_bits = 15}), deflate);
  EXPECT_EQ(extension_for(deflate, {.enabled = false}), "none");
  EXPECT_EQ(extension_for(deflate, {}), deflate + "; server_max_window_bits=12");
  EXPECT_EQ(extension_for(deflate + "; client_max_window_bits", {.window_bits = 15}), deflate);
  EXPECT_EQ(extension_for(deflate + "; client_max_window_bits",
                          {.window_bits = 15, .peer_window_bits = 10}),
            deflate + "; client_max_window_bits=10");
  EXPECT_EQ(extension_for(deflate, {.window_bits = 15, .peer_window_bits = 10}), deflate);
  EXPECT_EQ(extension_for(deflate + "; client_max_window_bits=8; server_max_window_bits=8",
                          {.window_bits = 15}),
            deflate + "; server_max_window_bits=8; client_max_window_bits=8");
  EXPECT_EQ(extension_for(deflate + "; server_no_context_takeover", {.window_bits = 15}),
            deflate + "; server_no_context_takeover");
  EXPECT_EQ(extension_for(deflate + ";client_no_context_takeover;server_max_window_bits=\"9\"",
                          {.keeps_context = false}),
            deflate +
                "; server_no_context_takeover; client_no_context_takeover; "
                "server_max_window_bits=9");
  for (const std::string_view wrong :
       {"; unknown", "; server_max_window_bits", "; server_max_window_bits=7",
        "; server_max_window_bits=16", "; server_max_window_bits=08", "; client_max_window_bits=a",
        "; server_no_context_takeover=1", "; client_max_window_bits; client_max_window_bits", "=1",
        "; ;", "; server_max_window_bits=10; server_max_window_bits=10"}) {
    EXPECT_EQ(extension_for(deflate + std::string(wrong), {.window_bits = 15}), "none") << wrong;
  }
  EXPECT_EQ(extension_for("x-webkit-deflate-frame, " + deflate + "; server_max_window_bits=7, " +
                              deflate + "; server_max_window_bits=10",
                          {.window_bits = 15}),
            deflate + "; server_max_window_bits=10");
}

TEST_F(HttpWebsocketServer, ClosesAfterItsFunction) {
  serve([](websocket& socket) -> task<> {
    auto message = co_await socket.receive();
    if (message->text() == "throw") throw std::runtime_error("a fault of the program");
  });
  peer client = open();
  EXPECT_EQ(exchange(client, frame(fin | 1, "x"), 4), closing(close_code::normal));
  client.send(frame(fin | 8, close_payload(1000)));
  EXPECT_EQ(all_of(client), "");
  EXPECT_EQ(errors, 0);
  peer failing_client = open();
  EXPECT_EQ(exchange(failing_client, frame(fin | 1, "throw"), 4),
            closing(close_code::internal_error));
  failing_client.send(frame(fin | 8, close_payload(1011)));
  EXPECT_EQ(all_of(failing_client), "");
  EXPECT_EQ(errors, 1);
}

// Serves a socket that fails at its first message, and collects the requests that the server
// reports.
class HttpWebsocketRequest : public HttpWebsocketServer {
 protected:
  void serve_failing(bool attaches = false, gyre::http::server_options options = {}) {
    make(std::move(options));
    on->get("/rooms/{room}", [attaches](request& request) {
      if (attaches) request.attach(std::string("attached"));
      return gyre::http::accept_websocket(request, [](websocket& socket) -> task<> {
        const auto message = co_await socket.receive();
        if (message) throw std::runtime_error("a fault of the program");
      });
    });
    const auto describe = [](const request& request) {
      const std::string* const attached = request.attachment<std::string>();
      return std::string(request.method_text())
          .append(" ")
          .append(request.target())
          .append(" ")
          .append(request.param("room"))
          .append(" ")
          .append(request.field("Upgrade").value_or("none"))
          .append(request.client_address() ? " client" : " nobody")
          .append(request.id().empty() ? "" : " id")
          .append(attached != nullptr ? " " + *attached : "");
    };
    on->on_error([=, this](const request& request, const std::exception_ptr&) {
      failed.push_back(describe(request));
    });
    on->on_access([=, this](const gyre::http::access_record& record) {
      ended.push_back(describe(record.request) + ' ' + std::string(record.route));
    });
    on->start();
  }
  peer open_room() {
    peer client = connect();
    client.send(get("/rooms/a%20b?x=1", websocket_fields));
    EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 101 "));
    return client;
  }
  void fail(peer& client) {
    client.send(frame(fin | 1, "x"));
    EXPECT_EQ(receive(client, 4), closing(close_code::internal_error));
  }

  std::vector<std::string> failed;
  std::vector<std::string> ended;
};

constexpr const char* room_request = "GET /rooms/a%20b?x=1 a b websocket client";

TEST_F(HttpWebsocketRequest, IsToldWhenTheSocketHasFailed) {
  serve_failing();
  peer client = open_room();
  EXPECT_THAT(ended, testing::IsEmpty());
  fail(client);
  virtual_time.turn_until([&] { return !ended.empty(); });
  EXPECT_THAT(failed, testing::ElementsAre(room_request));
  EXPECT_THAT(ended, testing::ElementsAre(std::string(room_request) + " /rooms/{room}"));
}

TEST_F(HttpWebsocketRequest, IsToldWhenTheClientHasLeft) {
  serve_failing();
  peer client = open_room();
  client.reset();
  virtual_time.turn_until([&] { return !ended.empty(); });
  EXPECT_THAT(failed, testing::IsEmpty());
  EXPECT_THAT(ended, testing::ElementsAre(std::string(room_request) + " /rooms/{room}"));
}

TEST_F(HttpWebsocketRequest, KeepsItsIdAndWhatIsAttached) {
  gyre::http::server_options options;
  options.request_ids.field = "X-Request-Id";
  serve_failing(true, options);
  peer client = open_room();
  fail(client);
  virtual_time.turn_until([&] { return !ended.empty(); });
  EXPECT_THAT(failed, testing::ElementsAre(std::string(room_request) + " id attached"));
}

TEST_F(HttpWebsocketServer, WaitsForTheCloseOfAPeerForATime) {
  serve([](websocket&) -> task<> { co_return; });
  peer client = open();
  EXPECT_EQ(receive(client, 4), closing(close_code::normal));
  client.send(frame(fin | 1, "dropped"));
  virtual_time.settle();
  client.receive();
  EXPECT_FALSE(client.ended);
  virtual_time.advance(6s);
  EXPECT_TRUE(ends(client));
}

TEST_F(HttpWebsocketServer, FailsForPeersThatBreakTheProtocol) {
  std::vector<std::error_code> failures;
  serve(
      [&](websocket& socket) -> task<> {
        try {
          while (auto message = co_await socket.receive()) {
          }
        } catch (const std::system_error& error) {
          failures.push_back(error.code());
          EXPECT_FALSE(socket.is_open());
        }
      },
      {.limits = {.message = 100}});
  const auto reply_to = [&](const std::string& bytes) {
    peer client = open();
    client.send(bytes);
    return all_of(client);
  };
  EXPECT_EQ(reply_to(frame(fin | 1, "x", false)), failing(websocket_errc::bad_frame));
  EXPECT_EQ(reply_to(frame(fin | 0x40 | 1, "x")), failing(websocket_errc::bad_frame));
  EXPECT_EQ(reply_to(frame(fin | 8, close_payload(1005))), failing(websocket_errc::bad_close));
  EXPECT_EQ(reply_to(frame(fin | 1, "\xff")), failing(websocket_errc::bad_utf8));
  EXPECT_EQ(reply_to(frame(fin | 1, std::string(101, 'x'))), failing(websocket_errc::too_large));
  EXPECT_EQ(reply_to("GET / HTTP/1.1\r\n\r\n"), failing(websocket_errc::bad_frame));
  EXPECT_EQ(failures,
            (std::vector<std::error_code>{websocket_errc::bad_frame, websocket_errc::bad_frame,
                                          websocket_errc::bad_close, websocket_errc::bad_utf8,
                                          websocket_errc::too_large, websocket_errc::bad_frame}));
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketServer, KeepsAPeerAliveAndNoticesItsSilence) {
  std::vector<std::error_code> failures;
  serve_dropping(failures);
  peer client = open();
  answer_three_pings_then_none(client);
  EXPECT_EQ(failures, (std::vector<std::error_code>{websocket_errc::silent_peer}));
}

TEST_F(HttpWebsocketServer, LimitsTheTimeOfAMessage) {
  std::vector<std::error_code> failures;
  serve_dropping(failures);
  for (const std::string& part :
       {frame(1, "a part"), frame(fin | 1, "cut").substr(0, 7), std::string("\x81")}) {
    peer client = open();
    client.send(part);
    for (int i = 0; i < 5; ++i) {
      virtual_time.settle();
      virtual_time.advance(11s);
      virtual_time.settle();
      if (part.size() > 7) client.send(frame(fin | 9, "") + frame(0, ""));
    }
    client.receive();
    EXPECT_FALSE(client.ended);
    virtual_time.settle();
    virtual_time.advance(17s);
    const std::string output = all_of(client);
    EXPECT_THAT(output, HasSubstr(close_payload(1008, "the message took too long")));
  }
  EXPECT_EQ(failures, std::vector<std::error_code>(3, websocket_errc::message_timeout));
}

TEST_F(HttpWebsocketServer, NoticesThatItsPeerLeaves) {
  std::error_code failure;
  bool was_stopped = false;
  serve([&](websocket& socket) -> task<> {
    auto read = [&]() -> task<> {
      try {
        co_await socket.receive();
      } catch (const std::system_error& error) {
        failure = error.code();
      }
    };
    auto sleep = [&]() -> task<> {
      try {
        co_await gyre::sleep_for(1h);
      } catch (const gyre::operation_cancelled&) {
        was_stopped = true;
        throw;
      }
    };
    auto both = gyre::when_all(read(), sleep());
    co_await std::move(both);
  });
  peer client = open();
  client.close();
  virtual_time.turn_until([&] { return was_stopped; });
  virtual_time.settle();
  EXPECT_EQ(failure, websocket_errc::ended);
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketServer, GoesAwayWhenTheServerStops) {
  std::vector<std::string> messages;
  serve([&](websocket& socket) -> task<> {
    while (auto message = co_await socket.receive()) messages.emplace_back(message->text());
    EXPECT_EQ(socket.close_status(), close_code::going_away);
  });
  peer client = open();
  bool is_stopped = false;
  virtual_time.settle();
  on->stop(1h, [&] { is_stopped = true; });
  EXPECT_EQ(receive(client, 4), closing(close_code::going_away));
  client.send(frame(fin | 1, "on its way") + frame(fin | 8, close_payload(1001)));
  EXPECT_EQ(all_of(client), "");
  client.close();
  virtual_time.turn_until([&] { return is_stopped; });
  EXPECT_EQ(messages, std::vector<std::string>{"on its way"});
}

// Sockets of handlers, which the connection of TCP calls without a coroutine.
class HttpWebsocketHandlers : public HttpWebsocketServer {
 protected:
  gyre::http::websocket_handlers recording(bool echoes) {
    gyre::http::websocket_handlers handlers;
    handlers.on_message([this, echoes](gyre::http::websocket_connection& socket,
                                       gyre::http::websocket_message message) {
      messages.emplace_back(message.text());
      if (echoes) socket.send(message);
    });
    handlers.on_close([this](gyre::http::websocket_connection&, std::error_code reason) {
      reasons.push_back(reason);
    });
    return handlers;
  }
  void serve_handlers(bool echoes, gyre::http::server_options options = {}) {
    make(std::move(options));
    on->get("/", [this, echoes](const request& request) {
      return gyre::http::accept_websocket(request, recording(echoes));
    });
    on->start();
  }
  // Accepts sockets when the test allows it, in a turn that is not one of the connection.
  void serve_when_allowed(gyre::http::server_options options = {}) {
    make(std::move(options));
    on->get("/", [this](request& request) -> task<gyre::http::response> {
      co_await may_accept.wait();
      co_return gyre::http::accept_websocket(request, recording(true));
    });
    on->start();
  }

  gyre::manual_reset_event may_accept;
  std::vector<std::string> messages;
  std::vector<std::error_code> reasons;
};

TEST_F(HttpWebsocketHandlers, TakeTheConnectionOverOutsideOfItsTurn) {
  serve_when_allowed();
  peer client = connect();
  client.send(get("/", websocket_fields) + frame(fin | 1, "early"));
  virtual_time.settle();
  may_accept.set();
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 101 "));
  EXPECT_EQ(receive(client, 7), frame(fin | 1, "early", false));
  EXPECT_EQ(exchange(client, frame(fin | 1, "late"), 6), frame(fin | 1, "late", false));
  EXPECT_EQ(exchange(client, frame(fin | 8, close_payload(1000)), 4), closing(close_code::normal));
  EXPECT_EQ(all_of(client), "");
  EXPECT_EQ(messages, (std::vector<std::string>{"early", "late"}));
  EXPECT_EQ(reasons, std::vector<std::error_code>(1));
}

TEST_F(HttpWebsocketHandlers, TakeOverAConnectionThatItsPeerHasLeft) {
  gyre::http::server_options options;
  options.serve_half_closed = true;
  serve_when_allowed(options);
  for (const std::string& early : {std::string(), frame(fin | 1, "early")}) {
    messages.clear();
    reasons.clear();
    may_accept.reset();
    peer client = connect();
    client.send(get("/", websocket_fields) + early);
    client.end_sending();
    virtual_time.settle();
    may_accept.set();
    EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 101 "));
    all_of(client);
    EXPECT_EQ(messages.size(), early.empty() ? 0U : 1U);
    EXPECT_EQ(reasons, (std::vector<std::error_code>{websocket_errc::ended}));
  }
}

TEST_F(HttpWebsocketHandlers, GoAwayIfTheServerStopsBeforeTheyTakeTheConnectionOver) {
  serve_when_allowed();
  peer client = connect();
  client.send(get("/", websocket_fields));
  virtual_time.settle();
  bool is_stopped = false;
  on->stop(1h, [&] { is_stopped = true; });
  virtual_time.settle();
  may_accept.set();
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 101 "));
  EXPECT_EQ(receive(client, 4), closing(close_code::going_away));
  client.send(frame(fin | 8, close_payload(1001)));
  EXPECT_EQ(all_of(client), "");
  client.close();
  virtual_time.turn_until([&] { return is_stopped; });
  EXPECT_EQ(reasons, std::vector<std::error_code>(1));
}

TEST_F(HttpWebsocketHandlers, NoticeThatTheirPeerLeavesBetweenAndWithinFrames) {
  for (const char* id_field : {"", "X-Request-Id"}) {
    for (const std::string& part : {std::string(), frame(1, "a part"), frame(1, "cut").substr(0, 1),
                                    frame(1, "cut").substr(0, 8)}) {
      messages.clear();
      reasons.clear();
      gyre::http::server_options options;
      options.request_ids.field = id_field;
      serve_handlers(true, options);
      peer client = open();
      EXPECT_EQ(exchange(client, frame(fin | 1, "whole"), 7), frame(fin | 1, "whole", false));
      client.send(part);
      client.end_sending();
      EXPECT_EQ(all_of(client), "");
      EXPECT_EQ(messages, (std::vector<std::string>{"whole"}));
      EXPECT_EQ(reasons, (std::vector<std::error_code>{websocket_errc::ended}));
    }
  }
}

TEST_F(HttpWebsocketHandlers, SendAPongBeforeTheReplyToALaterMessage) {
  serve_handlers(true);
  peer client = open();
  EXPECT_EQ(exchange(client, frame(1, "a") + frame(fin | 9, "ping") + frame(fin, "b"), 10),
            frame(fin | 10, "ping", false) + frame(fin | 1, "ab", false));
}

TEST_F(HttpWebsocketHandlers, ASubscriberMayBeSlowAgainAndAgain) {
  gyre::http::websocket_broadcast news(
      {.capacity = 4, .policy = gyre::http::slow_subscriber::loses_messages});
  gyre::http::websocket_connection* subscriber = nullptr;
  make();
  on->get("/", [&](const request& request) {
    gyre::http::websocket_handlers handlers;
    handlers.on_open([&](gyre::http::websocket_connection& socket) {
      socket.subscribe_to(news);
      subscriber = &socket;
    });
    return gyre::http::accept_websocket(request, std::move(handlers));
  });
  on->start();
  peer client = open();
  virtual_time.turn_until([&] { return news.metrics().subscribers == 1; });
  const std::string text(std::size_t{1} << 20, 'x');
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 16; ++i) {
      news.send_text(text);
      virtual_time.settle();
    }
    do {
      client.receive();
      client.text.clear();
      virtual_time.settle();
    } while (subscriber->pending_output() != 0);
  }
  EXPECT_GT(news.metrics().lost, 0U);
  EXPECT_GT(news.metrics().deliveries, 3U);
}

TEST_F(HttpWebsocketHandlers, KeepAPeerAliveAndNoticeItsSilence) {
  serve_handlers(false);
  peer client = open();
  answer_three_pings_then_none(client);
  EXPECT_EQ(reasons, (std::vector<std::error_code>{websocket_errc::silent_peer}));
}

TEST_F(HttpWebsocketHandlers, LimitTheTimeOfAMessage) {
  serve_handlers(false);
  peer client = open();
  client.send(frame(1, "a part"));
  expect_silence(client, 59s);
  virtual_time.advance(2s);
  EXPECT_THAT(all_of(client), HasSubstr(close_payload(1008, "the message took too long")));
  EXPECT_EQ(reasons, (std::vector<std::error_code>{websocket_errc::message_timeout}));
}

TEST_F(HttpWebsocketHandlers, GoAwayWhenTheServerStops) {
  serve_handlers(false);
  peer client = open();
  bool is_stopped = false;
  virtual_time.settle();
  on->stop(1h, [&] { is_stopped = true; });
  EXPECT_EQ(receive(client, 4), closing(close_code::going_away));
  client.send(frame(fin | 1, "on its way") + frame(fin | 8, close_payload(1001)));
  EXPECT_EQ(all_of(client), "");
  client.close();
  virtual_time.turn_until([&] { return is_stopped; });
  EXPECT_EQ(messages, std::vector<std::string>{"on its way"});
  EXPECT_EQ(reasons, std::vector<std::error_code>(1));
}

// --- A function between its receives ---

// Serves a socket by a function that receives when the test allows it.
class HttpWebsocketFunction : public HttpWebsocketServer {
 protected:
  void serve_when_allowed(gyre::http::server_options options = {}) {
    make(std::move(options));
    on->get("/", [this](const request& request) {
      return gyre::http::accept_websocket(request, [this](websocket& socket) -> task<> {
        try {
          co_await may_receive.wait();
          while (auto message = co_await socket.receive()) messages.emplace_back(message->text());
        } catch (const std::system_error& error) {
          failures.push_back(error.code());
        } catch (const gyre::operation_cancelled&) {
          was_stopped = true;
          throw;
        }
      });
    });
    on->on_error([this](const request&, const std::exception_ptr&) { ++errors; });
    on->start();
  }

  gyre::manual_reset_event may_receive;
  std::vector<std::string> messages;
  std::vector<std::error_code> failures;
  bool was_stopped = false;
};

TEST_F(HttpWebsocketFunction, ReceivesWhatCameBeforeThePeerHasLeft) {
  gyre::http::server_options options;
  options.serve_half_closed = true;
  serve_when_allowed(options);
  peer client = open();
  client.send(frame(fin | 1, "one") + frame(fin | 1, "two"));
  virtual_time.settle();
  client.send(frame(fin | 1, "three"));
  client.end_sending();
  virtual_time.settle();
  may_receive.set();
  virtual_time.turn_until([&] { return !failures.empty(); });
  EXPECT_EQ(messages, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_EQ(failures, (std::vector<std::error_code>{websocket_errc::ended}));
}

TEST_F(HttpWebsocketFunction, IsStoppedWhenThePeerLeavesThoughBytesWait) {
  serve_when_allowed();
  peer client = open();
  client.send(frame(fin | 1, "one"));
  virtual_time.settle();
  client.end_sending();
  virtual_time.turn_until([&] { return was_stopped; });
  all_of(client);
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketFunction, LetsThePeerWaitUntilItReceives) {
  serve_when_allowed();
  peer client = open();
  const std::string text(100'000, 'x');
  constexpr std::size_t count = 8;
  for (std::size_t i = 0; i < count; ++i) {
    client.send(frame(fin | 1, text));
    virtual_time.settle();
  }
  EXPECT_LT(on->metrics().tcp.traffic.bytes_received, 3 * text.size());
  may_receive.set();
  virtual_time.turn_until([&] { return messages.size() == count; });
  EXPECT_EQ(messages, std::vector<std::string>(count, text));
}

TEST_F(HttpWebsocketFunction, MayReceiveWhenTheServerIsDestroyed) {
  serve_when_allowed();
  may_receive.set();
  peer client = open();
  EXPECT_EQ(exchange(client, frame(fin | 9, ""), 2), frame(fin | 10, "", false));
  on.reset();
  virtual_time.turn_until([&] { return was_stopped; });
  EXPECT_TRUE(ends(client));
}

TEST_F(HttpWebsocketServer, AReceiveThatCannotBeStoppedEndsWithTheServer) {
  std::error_code failure;
  serve([&](websocket& socket) -> task<> {
    auto receiving = gyre::as_result(gyre::shielded(socket.receive()));
    const auto received = co_await std::move(receiving);
    try {
      if (!received) std::rethrow_exception(received.error());
    } catch (const std::system_error& error) {
      failure = error.code();
    }
  });
  peer client = open();
  EXPECT_EQ(exchange(client, frame(fin | 9, ""), 2), frame(fin | 10, "", false));
  on.reset();
  virtual_time.turn_until([&] { return failure != std::error_code(); });
  EXPECT_EQ(failure, websocket_errc::ended);
}

TEST_F(HttpWebsocketServer, TheStopWaitsForAFunctionWhoseClientHasLeft) {
  gyre::manual_reset_event may_end;
  bool was_stopped = false;
  serve([&](websocket& socket) -> task<> {
    while (!was_stopped) {
      auto receiving = gyre::as_result(socket.receive());
      const auto received = co_await std::move(receiving);
      if (!received) was_stopped = true;
    }
    auto waiting = gyre::shielded(may_end.wait());
    co_await std::move(waiting);
  });
  peer client = open();
  client.reset();
  virtual_time.turn_until([&] { return was_stopped; });
  bool is_stopped = false;
  on->stop(1h, [&] { is_stopped = true; });
  virtual_time.settle();
  EXPECT_FALSE(is_stopped);
  may_end.set();
  virtual_time.turn_until([&] { return is_stopped; });
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketServer, EndsWithoutACloseFrameWhenItsSocketIsDropped) {
  gyre::manual_reset_event may_end;
  serve([&](websocket& socket) -> task<> {
    {
      const websocket dropped = std::move(socket);
    }
    co_await may_end.wait();
  });
  peer client = open();
  virtual_time.settle();
  may_end.set();
  EXPECT_EQ(all_of(client), "");
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketServer, ClosesAfterAFunctionThatFailsInItsCall) {
  serve([](websocket&) -> task<> { throw std::runtime_error("a fault of the program"); });
  peer client = open();
  EXPECT_EQ(receive(client, 4), closing(close_code::internal_error));
  all_of(client);
  EXPECT_EQ(errors, 1);
}

TEST_F(HttpWebsocketServer, AnswersMoreMessagesThanATurnTakes) {
  serve(echo);
  peer client = open();
  std::string sent;
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    sent += frame(fin | 1, std::to_string(i));
    expected += frame(fin | 1, std::to_string(i), false);
  }
  EXPECT_EQ(exchange(client, sent, expected.size()), expected);
}

TEST_F(HttpWebsocketServer, MayCloseWithinATurnThatHasMoreMessages) {
  serve([](websocket& socket) -> task<> {
    for (int i = 0; i < 200; ++i) co_await socket.receive();  // more than a turn takes
    co_await socket.close(close_code::policy_violation, "enough");
  });
  peer client = open();
  std::string sent;
  for (int i = 0; i < 300; ++i) sent += frame(fin | 1, std::to_string(i));
  EXPECT_EQ(exchange(client, sent, 10), closing(close_code::policy_violation, "enough"));
  client.send(frame(fin | 8, ""));
  EXPECT_EQ(all_of(client), "");
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpWebsocketServer, AnswersPingsWhileItSends) {
  serve([](websocket& socket) -> task<> {
    auto both = gyre::when_all(echo(socket), [](websocket& target) -> task<> {
      co_await target.send_text("first");
    }(socket));
    co_await std::move(both);
  });
  peer client = open();
  EXPECT_EQ(exchange(client, frame(fin | 9, "are you there"), 22),
            frame(fin | 1, "first", false) + frame(fin | 10, "are you there", false));
}

TEST_F(HttpWebsocketServer, RefusesASecondReceive) {
  std::error_code failure;
  serve([&](websocket& socket) -> task<> {
    auto receive_twice = [&]() -> task<> {
      try {
        co_await socket.receive();
      } catch (const std::system_error& error) {
        failure = error.code();
      }
    };
    auto both = gyre::when_all(echo(socket), receive_twice());
    co_await std::move(both);
  });
  peer client = open();
  EXPECT_EQ(exchange(client, frame(fin | 1, "x"), 3), frame(fin | 1, "x", false));
  EXPECT_EQ(failure, gyre::io::errc::busy);
}

TEST_F(HttpWebsocketServer, ClosesWhileAnotherCoroutineReceives) {
  gyre::manual_reset_event must_close;
  std::vector<std::string> messages;
  bool is_closed = false;
  serve([&](websocket& socket) -> task<> {
    auto read = [&]() -> task<> {
      while (auto message = co_await socket.receive()) messages.emplace_back(message->text());
    };
    auto close = [&]() -> task<> {
      co_await must_close.wait();
      co_await socket.close(close_code::policy_violation, "enough");
      is_closed = true;
    };
    auto both = gyre::when_all(read(), close());
    co_await std::move(both);
  });
  peer client = open();
  must_close.set();
  EXPECT_EQ(receive(client, 10), closing(close_code::policy_violation, "enough"));
  client.send(frame(fin | 1, "late"));
  virtual_time.settle();
  EXPECT_FALSE(is_closed);
  client.send(frame(fin | 8, ""));
  EXPECT_EQ(all_of(client), "");
  EXPECT_TRUE(is_closed);
  EXPECT_EQ(messages, std::vector<std::string>{"late"});
}

TEST_F(HttpWebsocketServer, ChecksWhatItSends) {
  int refused = 0;
  serve([&](websocket& socket) -> task<> {
    const auto expect_invalid = [&](auto call) {
      try {
        static_cast<void>(call());
      } catch (const std::invalid_argument&) {
        ++refused;
      }
    };
    expect_invalid([&] { return socket.send_text("\xff"); });
    expect_invalid([&] { return socket.close(close_code::none); });
    expect_invalid([&] { return socket.close(static_cast<close_code>(999)); });
    expect_invalid([&] { return socket.close(close_code::normal, std::string(124, 'x')); });
    expect_invalid([&] { return socket.close(close_code::normal, "\xff"); });
    co_await socket.close(static_cast<close_code>(4000), std::string(123, 'x'));
    try {
      co_await socket.send_text("late");
    } catch (const std::system_error& error) {
      if (error.code() == websocket_errc::closed) ++refused;
    }
  });
  peer client = open();
  EXPECT_EQ(receive(client, 127), closing(static_cast<close_code>(4000), std::string(123, 'x')));
  client.send(frame(fin | 8, ""));
  all_of(client);
  EXPECT_EQ(refused, 6);
}

}  // namespace
}  // namespace http_websocket_server_test
