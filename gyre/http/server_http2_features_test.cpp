// SPDX-License-Identifier: Apache-2.0
// Tests that what HTTP/1.1 has above the handlers works over HTTP/2: middleware, compression, CORS,
// ids, logs, counts, groups and typed parameters.
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/access_log.hpp>
#include <gyre/http/compress.hpp>
#include <gyre/http/compression.hpp>
#include <gyre/http/cors.hpp>
#include <gyre/http/http2_server_test_support.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/http/websocket_handlers.hpp>
#include <gyre/http/websocket_test_support.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/sleep.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace server_http2_features_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::http::test;
using gyre::task;
using gyre::http::access_record;
using gyre::http::body_writer;
using gyre::http::next_handler;
using gyre::http::request;
using gyre::http::response;
using gyre::http::status;
using gyre::http::websocket_connection;
using gyre::http::websocket_handlers;
using gyre::net::test::long_text;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Http2Features = http2_server_fixture;

std::string unpacked(std::string_view packed) {
  gyre::http::decompressor unpack(gyre::http::content_coding::gzip);
  gyre::io::buffer text;
  EXPECT_FALSE(unpack.write(std::as_bytes(std::span(packed)), text));
  EXPECT_TRUE(unpack.is_complete());
  return std::string(text.text());
}

TEST_F(Http2Features, MiddlewareWrapsHandlers) {
  make();
  on->use([](request& request, next_handler next) -> task<response> {
    auto rest = next.respond(request);
    response result = co_await std::move(rest);
    co_return std::move(result).set("X-Outer", request.query<std::string>("x", "none"));
  });
  on->group("/api").get("/{id}", [](request& request) {
    return response::text(std::to_string(request.param<int>("id") + 1));
  });
  on->start();
  http2_client from = connect_http2();
  from.send(request_frame(1, "GET", "/api/7?x=y") + request_frame(3, "GET", "/api/a") +
            request_frame(5, "GET", "/none"));
  const std::string frames = wait_for(from, "DATA 5");
  EXPECT_THAT(frames, HasSubstr("DATA 1 end 8\n"));
  EXPECT_THAT(frames, HasSubstr("HEADERS 1 :status: 200;content-type: text/plain; charset=utf-8;"
                                "x-outer: y;date: …;content-length: 1;\n"));
  EXPECT_THAT(frames, AllOf(HasSubstr("HEADERS 3 :status: 400;"), HasSubstr("x-outer: none;")));
  EXPECT_THAT(frames, HasSubstr("HEADERS 5 :status: 404;"));
}

TEST_F(Http2Features, CompressesWholeAndStreamedBodies) {
  make();
  const std::string text = long_text(100'000);
  on->use(gyre::http::compress());
  on->get("/whole", [&](request&) { return response::text(text); });
  on->get("/stream", [&](request&) {
    return response::stream("text/plain", [&](body_writer& out) -> task<> {
      co_await out.write(std::string_view(text).substr(0, 50'000));
      co_await out.write(std::string_view(text).substr(50'000));
    });
  });
  on->start();
  http2_client from = connect_http2();
  const field_texts packs{{"accept-encoding", "gzip"}};
  from.send(request_frame(1, "GET", "/whole", end_stream, packs) +
            request_frame(3, "GET", "/stream", end_stream, packs) +
            request_frame(5, "GET", "/stream"));
  from.send(window_update(0, 200'000) + window_update(5, 200'000));
  wait_for(from, "DATA 1 end");
  wait_for(from, "DATA 3 end");
  const std::string frames = wait_for(from, "DATA 5 end");
  EXPECT_THAT(frames,
              AllOf(HasSubstr("content-encoding: gzip;"), HasSubstr("vary: Accept-Encoding;")));
  EXPECT_LT(from.bodies[1].size(), text.size() / 2);
  EXPECT_EQ(unpacked(from.bodies[1]), text);
  EXPECT_EQ(unpacked(from.bodies[3]), text);
  EXPECT_EQ(from.bodies[5], text);
}

TEST_F(Http2Features, CorsAnswersPreflightRequests) {
  make();
  const std::string app = "https://app.example.org";
  on->use(gyre::http::cors({.origins = {app}}));
  on->put("/a", [](request&) { return response::text("put"); });
  on->start();
  EXPECT_THAT(exchange(request_frame(1, "OPTIONS", "/a", end_stream,
                                     {{"origin", app}, {"access-control-request-method", "PUT"}}),
                       "HEADERS 1"),
              AllOf(StartsWith("HEADERS 1 end :status: 204;"),
                    HasSubstr("access-control-allow-origin: https://app.example.org;")));
  EXPECT_THAT(exchange(request_frame(1, "PUT", "/a", end_stream, {{"origin", app}}), "DATA 1"),
              HasSubstr("access-control-allow-origin: https://app.example.org;"));
  EXPECT_THAT(
      exchange(request_frame(1, "PUT", "/a", end_stream, {{"origin", "https://b"}}), "DATA 1"),
      Not(HasSubstr("access-control-allow-origin")));
}

TEST_F(Http2Features, RequestsHaveIdsRecordsAndCounts) {
  make({.request_ids = {.field = "X-Request-Id"}, .counts_routes = true});
  std::vector<std::string> lines;
  std::string id;
  on->on_access([&](const access_record& record) { lines.push_back(to_combined_log(record)); });
  on->get("/{name}", [&](request& request) {
    id = request.id();
    return response::text("hello");
  });
  on->start();
  http2_client from = connect_http2();
  from.send(request_frame(1, "GET", "/x", end_stream, {{"user-agent", "a test"}}) +
            request_frame(3, "HEAD", "/x") + request_frame(5, "POST", "/x"));
  const std::string frames = wait_for(from, "HEADERS 5");
  EXPECT_EQ(id.size(), 32u);
  EXPECT_THAT(frames, HasSubstr("x-request-id: " + id + ';'));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], HasSubstr("\"GET /x HTTP/2.0\" 200 5 \"-\" \"a test\""));
  EXPECT_THAT(lines[1], HasSubstr("\"HEAD /x HTTP/2.0\" 200 0 "));
  EXPECT_THAT(lines[1], EndsWith('"' + id + '"'));
  EXPECT_THAT(lines[2], HasSubstr("\"POST /x HTTP/2.0\" 405 "));
  const auto routes = on->route_metrics();
  ASSERT_EQ(routes.size(), 2u);
  EXPECT_EQ(routes[0].pattern, "/{name}");
  EXPECT_EQ(routes[0].responses[2], 2u);
  EXPECT_EQ(routes[1].responses[4], 1u);
}

TEST_F(Http2Features, AStreamThatIsResetIsRecordedAsCut) {
  make({.counts_routes = true});
  int cut = 0;
  on->on_access([&](const access_record& record) { cut += record.is_complete ? 0 : 1; });
  on->get("/", [](request&) {
    return response::stream("text/plain", [](body_writer& out) -> task<> {
      const std::string piece(16'384, 'x');
      for (;;) co_await out.write(piece);
    });
  });
  on->start();
  http2_client from = connect_http2();
  from.send(request_frame(1, "GET", "/"));
  wait_for(from, "DATA 1");
  from.send(frame(reset_frame, 0, 1, big_endian(8)));
  virtual_time.turn_until([&] { return on->metrics().active == 0; });
  EXPECT_EQ(cut, 1);
  EXPECT_EQ(on->route_metrics()[0].cut, 1u);
}

TEST_F(Http2Features, AWebSocketIsRefusedSoThatClientsTryHttp1) {
  make();
  on->get("/", [](request& request) {
    return gyre::http::accept_websocket(request,
                                        [](gyre::http::websocket&) -> task<> { co_return; });
  });
  on->start();
  EXPECT_EQ(exchange(request_frame(1, "GET", "/"), "RST_STREAM 1"), "RST_STREAM 1 13\n");
}

// --- WebSocket (RFC 8441) ---

using gyre::http::websocket;

std::string open_frame(std::uint32_t stream, std::string_view path, const field_texts& more = {},
                       std::string_view protocol = "websocket") {
  field_texts fields = request_fields("CONNECT", path, {{":protocol", std::string(protocol)}});
  fields.emplace_back("sec-websocket-version", "13");
  fields.insert(fields.end(), more.begin(), more.end());
  return frame(headers_frame, end_headers, stream, block_of(fields));
}

std::string open_frame_that_ends(std::uint32_t stream, std::string_view path) {
  std::string frame = open_frame(stream, path);
  frame[4] |= end_stream;
  return frame;
}

std::string data(std::uint32_t stream, std::string_view bytes) {
  return frame(data_frame, 0, stream, bytes);
}

class Http2WebSocket : public http2_server_fixture {
 protected:
  void SetUp() override {
    make();
    on->on_error([this](const request&, const std::exception_ptr&) { ++errors; });
    gyre::http::websocket_options options;
    options.subprotocols = {"chat"};
    options.compression.enabled = true;
    on->get("/echo", [this, options](request& request) {
      return gyre::http::accept_websocket(
          request,
          [this](websocket& socket) -> task<> {
            while (auto message = co_await socket.receive()) co_await socket.send(*message);
            ++closed;
          },
          options);
    });
    on->get("/later", [this](request& request) -> task<response> {
      co_await gyre::sleep_for(1s);
      co_return gyre::http::accept_websocket(request, [this](websocket& socket) -> task<> {
        while (auto message = co_await socket.receive()) {
          co_await go_on.wait();
          co_await socket.send(*message);
        }
        ++closed;
      });
    });
    on->get("/refused", [](request&) -> task<response> {
      co_await gyre::sleep_for(1s);
      co_return response(status::forbidden);
    });
    on->get("/fails", [](request& request) {
      return gyre::http::accept_websocket(request, [](websocket&) -> task<> {
        throw std::runtime_error("broken");
        co_return;
      });
    });
    on->get("/fails-after", [](request& request) {
      return gyre::http::accept_websocket(request, [](websocket& socket) -> task<> {
        while (auto message = co_await socket.receive()) {
        }
        throw std::runtime_error("broken");
      });
    });
    on->get("/fails-at-close", [](request& request) {
      websocket_handlers handlers;
      handlers.on_close(
          [](websocket_connection&, std::error_code) { throw std::runtime_error("broken"); });
      return gyre::http::accept_websocket(request, std::move(handlers));
    });
    on->get("/receives", [this](request& request) {
      return gyre::http::accept_websocket(request, [this](websocket& socket) -> task<> {
        auto receiving = gyre::as_result(socket.receive());
        end = code_of(co_await std::move(receiving));
        auto sending = gyre::as_result(socket.send_text("too late"));
        static_cast<void>(co_await std::move(sending));
        ++closed;
      });
    });
    on->get("/is-called", [this](request& request) {
      websocket_handlers handlers;
      handlers.on_close([this](websocket_connection&, std::error_code reason) {
        end = reason;
        ++closed;
      });
      return gyre::http::accept_websocket(request, std::move(handlers));
    });
    on->get("/text", [](request&) { return response::text("text"); });
    on->start();
  }
  void wait_for_bytes(http2_client& client, std::uint32_t stream, std::size_t size) {
    virtual_time.turn_until([&] {
      receive(client);
      return client.bodies[stream].size() >= size || client.socket.ended;
    });
  }

  static std::size_t credit_of_connection(const http2_client& peer) {
    constexpr std::string_view update = "WINDOW_UPDATE 0 ";
    std::size_t credit = 0;
    for (std::size_t at = 0; (at = peer.frames.find(update, at)) != std::string::npos;) {
      at += update.size();
      credit += std::stoul(peer.frames.substr(at, 10));
    }
    return credit;
  }

  static std::error_code code_of(const auto& result) {
    try {
      if (!result) std::rethrow_exception(result.error());
    } catch (const std::system_error& error) {
      return error.code();
    }
    return {};
  }

  gyre::manual_reset_event go_on;
  std::error_code end;
  int closed = 0;
  int errors = 0;
};

TEST_F(Http2WebSocket, GetsWhatCameBeforeItWasAccepted) {
  http2_client from = connect_http2();
  from.send(open_frame(1, "/later") + data(1, frame(fin | 1, "hel")) +
            data(1, frame(fin | 1, "lo")) + data(1, frame(fin | 1, long_text(6000))));
  pass_ping(from);
  virtual_time.advance(2s);
  EXPECT_THAT(wait_for(from, "HEADERS 1"), HasSubstr("HEADERS 1 :status: 200;"));
  go_on.set();
  const std::string echoed = frame(fin | 1, "hel", false) + frame(fin | 1, "lo", false) +
                             frame(fin | 1, long_text(6000), false);
  wait_for_bytes(from, 1, echoed.size());
  EXPECT_EQ(from.bodies[1], echoed);
  from.send(data(1, frame(fin | 8, close_payload(1000))));
  wait_for(from, "DATA 1 end");
  virtual_time.turn_until([&] { return on->metrics().active == 0; });
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(errors, 0);
}

TEST_F(Http2WebSocket, GetsTheEndThatCameBeforeItWasAccepted) {
  go_on.set();
  const std::string hello = data(1, frame(fin | 1, "hello"));
  for (const std::string& beginning :
       {open_frame(1, "/later") + hello + frame(data_frame, end_stream, 1),
        open_frame(1, "/later") + frame(data_frame, end_stream, 1, frame(fin | 1, "hello")),
        open_frame(1, "/later") + hello +
            frame(headers_frame, end_stream | end_headers, 1, block_of({{"a", "b"}}))}) {
    http2_client from = connect_http2();
    from.send(beginning);
    pass_ping(from);
    virtual_time.advance(2s);
    wait_for_bytes(from, 1, 7);
    EXPECT_TRUE(from.bodies[1].starts_with(frame(fin | 1, "hello", false)));
    virtual_time.turn_until([&] { return on->metrics().active == 0; });
  }
  http2_client from = connect_http2();
  from.send(open_frame_that_ends(1, "/later"));
  pass_ping(from);
  virtual_time.advance(2s);
  EXPECT_THAT(wait_for(from, "HEADERS 1"), HasSubstr("HEADERS 1 :status: 200;"));
  virtual_time.turn_until([&] { return on->metrics().active == 0; });
}

TEST_F(Http2WebSocket, BytesBeforeTheAcceptanceCountUntilTheyAreTaken) {
  http2_client from = connect_http2();
  const std::string piece = frame(fin | 2, std::string(5000, 'x'));
  // 100 pieces are more than the connection's window, which the refused streams must give back.
  // Credit comes when half of the window was used.
  for (std::uint32_t stream = 1; stream < 200; stream += 2) {
    from.send(open_frame(stream, stream == 199 ? "/later" : "/refused") + data(stream, piece));
    if (stream % 50 == 49 && stream != 199) {
      pass_ping(from);
      EXPECT_THAT(from.frames, Not(HasSubstr("HEADERS " + std::to_string(stream) + ' ')));
      virtual_time.advance(2s);
      wait_for(from, "RST_STREAM " + std::to_string(stream) + ' ');
    }
  }
  pass_ping(from);
  EXPECT_THAT(from.frames, Not(HasSubstr("WINDOW_UPDATE 199 ")));
  virtual_time.advance(2s);
  EXPECT_THAT(wait_for(from, "RST_STREAM 197 "), HasSubstr("HEADERS 197 end :status: 403;"));
  wait_for(from, "HEADERS 199 ");
  pass_ping(from);
  const std::size_t before = credit_of_connection(from);
  go_on.set();
  const std::string echoed = frame(fin | 2, std::string(5000, 'x'), false);
  wait_for_bytes(from, 199, echoed.size());
  EXPECT_EQ(from.bodies[199], echoed);
  // A client that uses the windows up gets credit for all bytes.
  EXPECT_GT(before + gyre::http::http2_options().connection_window / 2, 99 * piece.size());
}

TEST_F(Http2WebSocket, IsAStreamBesideRequests) {
  http2_client from = connect_http2();
  from.send(open_frame(1, "/echo", {{"sec-websocket-protocol", "other, chat"}}));
  EXPECT_THAT(wait_for(from, "HEADERS 1"),
              HasSubstr("HEADERS 1 :status: 200;sec-websocket-protocol: chat;date: …;\n"));
  from.send(data(1, frame(fin | 1, "hello")) + request_frame(3, "GET", "/text"));
  wait_for(from, "DATA 3 end text");
  wait_for_bytes(from, 1, 7);
  from.send(window_update(0, 1'000'000) + window_update(1, 1'000'000));
  const std::string text = long_text(10'000);
  std::string echoed = frame(fin | 1, "hello", false);
  for (int i = 0; i < 20; ++i) {
    from.send(data(1, frame(fin | 1, text)));
    echoed += frame(fin | 1, text, false);
    wait_for_bytes(from, 1, echoed.size());
  }
  EXPECT_EQ(from.bodies[1], echoed);
  from.send(data(1, frame(fin | 8, close_payload(1000))));
  wait_for(from, "DATA 1 end");
  EXPECT_TRUE(from.bodies[1].ends_with(frame(fin | 8, close_payload(1000), false)));
  virtual_time.turn_until([&] { return on->metrics().active == 0; });
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(errors, 0);
}

TEST_F(Http2WebSocket, AgreesOnCompression) {
  http2_client from = connect_http2();
  from.send(open_frame(1, "/echo", {{"sec-websocket-extensions", "permessage-deflate"}}));
  EXPECT_THAT(wait_for(from, "HEADERS 1"),
              HasSubstr("sec-websocket-extensions: permessage-deflate"));
}

TEST_F(Http2WebSocket, EndsWithItsStream) {
  for (const std::string& last_frame :
       {frame(reset_frame, 0, 1, big_endian(8)), frame(data_frame, end_stream, 1)}) {
    http2_client from = connect_http2();
    from.send(open_frame(1, "/echo"));
    wait_for(from, "HEADERS 1");
    from.send(last_frame);
    virtual_time.turn_until([&] { return on->metrics().active == 0; });
    from.send(request_frame(3, "GET", "/text"));
    EXPECT_THAT(wait_for(from, "DATA 3"), HasSubstr("DATA 3 end text\n"));
  }
}

// As the end of a connection of HTTP/1.1 does: without a Close frame, which belongs to the socket.
TEST_F(Http2WebSocket, EndsByTheEndOfItsStreamWithinAFrame) {
  const std::string part = frame(fin | 1, "hello").substr(0, 8);
  for (const std::string_view path : {"/receives", "/is-called"}) {
    for (const std::string_view received :
         {std::string_view(part), std::string_view(part).substr(0, 1)}) {
      end = {};
      closed = 0;
      http2_client from = connect_http2();
      from.send(open_frame(1, path));
      wait_for(from, "HEADERS 1");
      from.send(frame(data_frame, end_stream, 1, received));
      EXPECT_THAT(wait_for(from, "DATA 1 end"), Not(HasSubstr("RST_STREAM 1 8")));
      virtual_time.turn_until([&] { return on->metrics().active == 0; });
      EXPECT_EQ(from.bodies[1], "");
      EXPECT_EQ(closed, 1);
      EXPECT_EQ(end, gyre::http::websocket_errc::ended);
      from.send(request_frame(3, "GET", "/text"));
      EXPECT_THAT(wait_for(from, "DATA 3"), HasSubstr("DATA 3 end text\n"));
    }
  }
  EXPECT_EQ(errors, 0);
}

TEST_F(Http2WebSocket, IsClosedByAHandlerThatFails) {
  http2_client from = connect_http2();
  from.send(open_frame(1, "/fails"));
  EXPECT_THAT(wait_for(from, "DATA 1 end"), Not(HasSubstr("RST_STREAM 1 8")));
  EXPECT_EQ(from.bodies[1], frame(fin | 8, close_payload(1011), false));
  EXPECT_EQ(errors, 1);
}

TEST_F(Http2WebSocket, AFailureAfterTheClientsCloseKeepsTheReply) {
  for (const std::string_view path : {"/fails-after", "/fails-at-close"}) {
    errors = 0;
    http2_client from = connect_http2();
    // Windows of zero hold the reply up.
    from.send(frame(settings_frame, 0, 0, std::string("\0\4", 2) + big_endian(0)) +
              open_frame(1, path));
    wait_for(from, "HEADERS 1");
    from.send(data(1, frame(fin | 8, close_payload(1000))));
    virtual_time.turn_until([&] { return errors == 1; });
    pass_ping(from);
    from.send(window_update(1, 100));
    EXPECT_THAT(wait_for(from, "DATA 1 end"), Not(HasSubstr("RST_STREAM 1 8")));
    EXPECT_EQ(from.bodies[1], frame(fin | 8, close_payload(1000), false));
  }
}

TEST_F(Http2WebSocket, GoesAwayWhenTheServerStops) {
  http2_client from = connect_http2();
  from.send(open_frame(1, "/echo"));
  wait_for(from, "HEADERS 1");
  bool stopped = false;
  on->stop(std::chrono::seconds{10}, [&] { stopped = true; });
  wait_for_bytes(from, 1, 4);
  EXPECT_EQ(from.bodies[1], frame(fin | 8, close_payload(1001), false));
  from.send(data(1, frame(fin | 8, close_payload(1001))));
  wait_for(from, "DATA 1 end");
  from.socket.close();
  virtual_time.turn_until([&] { return stopped; });
}

TEST_F(Http2WebSocket, IsRefusedWithReasons) {
  EXPECT_THAT(exchange(open_frame(1, "/text"), "DATA 1"),
              AllOf(HasSubstr(":status: 501;"), HasSubstr("DATA 1 end This resource")));
  EXPECT_THAT(exchange(open_frame(1, "/none"), "DATA 1"), HasSubstr(":status: 404;"));
  EXPECT_THAT(exchange(open_frame(1, "/echo", {{"origin", "https://evil.example"}}), "DATA 1"),
              HasSubstr(":status: 403;"));
  EXPECT_THAT(exchange(open_frame(1, "/echo", {}, "other"), "RST_STREAM 1"),
              HasSubstr("RST_STREAM 1 13\n"));
  EXPECT_EQ(errors, 0);
}

}  // namespace
}  // namespace server_http2_features_test
