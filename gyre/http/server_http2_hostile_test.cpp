// SPDX-License-Identifier: Apache-2.0
// Tests that the memory for hostile clients of HTTP/2 is bounded with the options as they are. The
// server's own count is tested, which does not depend on allocators: server_metrics::http2.memory.
#include <gyre/http/http2_server_test_support.hpp>
#include <gyre/http/server.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/sleep.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace server_http2_hostile_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::http::test;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::request;
using gyre::http::response;
using gyre::http::status;
using testing::HasSubstr;

constexpr std::size_t mib = std::size_t{1} << 20;

/// Settings of a client: a pair of an identifier and a value.
std::string setting(std::uint32_t identifier, std::uint32_t value) {
  return frame(settings_frame, 0, 0, big_endian(identifier, 2) + big_endian(value));
}

constexpr std::uint32_t initial_window = 4;

std::string no_window() { return setting(initial_window, 0); }
std::string large_windows() {
  return setting(initial_window, 0x7fffffff) + window_update(0, 0x7fff0000);
}

/// Requests for each of the streams that a connection may have.
std::string hundred_requests(std::string_view method, std::string_view path,
                             std::uint8_t flags = end_stream, const field_texts& more = {}) {
  std::string bytes;
  for (std::uint32_t stream = 1; stream < 200; stream += 2) {
    bytes += request_frame(stream, method, path, flags, more);
  }
  return bytes;
}

class Http2Hostile : public http2_server_fixture {
 protected:
  void SetUp() override {
    make();
    on->get("/large", [](request&) { return response::text(std::string(300'000, 'x')); });
    on->get("/medium", [](request&) { return response::text(std::string(32'000, 'x')); });
    on->get("/stream", [](request&) {
      return response::stream("text/plain", [](body_writer& writer) -> task<> {
        const std::string piece(16'384, 'x');
        for (;;) co_await writer.write(piece);
      });
    });
    on->get("/slow", [](request&) -> task<response> {
      co_await gyre::sleep_for(1h);
      co_return status::ok;
    });
    on->get("/last", [this](request&) {
      ++last_requests;
      return status::ok;
    });
    on->post("/whole", [](request&) { return status::ok; });
    on->post("/pieces",
             [](request&) -> task<response> {
               co_await gyre::sleep_for(1h);
               co_return status::ok;
             },
             {.streamed_body = true});
    on->post("/read",
             [](request& request) -> task<response> {
               while (co_await request.next_chunk()) {
               }
               co_return status::ok;
             },
             {.streamed_body = true});
    on->start();
  }
  int last_requests = 0;  // of the path /last

  std::size_t memory() { return on->metrics().http2.memory; }
  /// Turns the loop until `count` requests are in progress. Returns the largest change of a turn.
  std::size_t turn_until_active(std::size_t count) {
    std::size_t largest = 0;
    for (std::size_t before = on->metrics().active; before != count;) {
      virtual_time.loop.poll();
      const std::size_t after = on->metrics().active;
      largest =
          std::max({largest, after - std::min(after, before), before - std::min(after, before)});
      before = after;
    }
    return largest;
  }
  /// Turns the loop until the first response has begun.
  void turn_until_response(http2_client& client) {
    while (client.frames.find("HEADERS 1 ") == std::string::npos && !client.socket.ended) {
      virtual_time.loop.poll();
      receive(client);
    }
  }
  void attack_as_new_clients(std::size_t clients);
  /// Connects, and lets the connection become idle.
  http2_client& connect_idle() {
    clients_.emplace_back(on->local_endpoint());
    const std::size_t connections = clients_.size();
    virtual_time.turn_until([&] { return on->metrics().http2.connections == connections; });
    virtual_time.settle();
    return clients_.back();
  }
  /// Sends bytes in pieces that the kernel takes. The client reads nothing.
  void attack(const http2_client& client, std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, 32'768);
      client.send(piece);
      bytes.remove_prefix(piece.size());
      virtual_time.settle();
      peak_ = std::max(peak_, memory());
    }
  }
  /// Returns the bytes that the server has held at most, above those of an idle connection.
  std::size_t peak_of(std::string_view bytes) {
    http2_client& client = connect_idle();
    const std::size_t idle = memory();
    peak_ = idle;
    attack(client, bytes);
    return peak_ - idle;
  }
  /// Returns the same for 500 connections.
  std::size_t peak_of_500(std::string_view bytes) {
    for (int i = 0; i < 500; ++i) connect_idle();
    const std::size_t idle = memory();
    peak_ = idle;
    for (const http2_client& each : clients_) attack(each, bytes);
    return peak_ - idle;
  }

 private:
  std::deque<http2_client> clients_;
  std::size_t peak_ = 0;
};

TEST_F(Http2Hostile, StalledResponsesHoldLittle) {
  EXPECT_LT(peak_of(no_window() + hundred_requests("GET", "/large")), mib);
}

TEST_F(Http2Hostile, StalledStreamsHoldLittle) {
  EXPECT_LT(peak_of(no_window() + hundred_requests("GET", "/stream")), mib);
}

TEST_F(Http2Hostile, ResponsesToAClientThatReadsNothingHoldLittle) {
  EXPECT_LT(peak_of(large_windows() + hundred_requests("GET", "/stream")), mib);
}

TEST_F(Http2Hostile, HeadsHoldLittle) {
  // A field of 4 KiB in the table of HPACK (RFC 7541, 6.2.1), and then a byte for each copy of it.
  std::string first = block_of(request_fields("GET", "/slow"));
  first += '\x40' + literal("a", std::string(3900, 'x')).substr(1);
  std::string block = block_of(request_fields("GET", "/slow")) + std::string(8, '\xbe');
  std::string bytes = frame(headers_frame, end_stream | end_headers, 1, first);
  for (std::uint32_t stream = 3; stream < 200; stream += 2) {
    bytes += frame(headers_frame, end_stream | end_headers, stream, block);
  }
  EXPECT_LT(peak_of(bytes), mib);
  EXPECT_GT(on->metrics().http2.refused_streams, 0u);
  EXPECT_GT(on->metrics().active, 5u);
}

TEST_F(Http2Hostile, IncompleteBodiesHoldLittle) {
  std::string bytes = hundred_requests("POST", "/whole", 0);
  for (std::uint32_t stream = 1; stream < 200; stream += 2) {
    for (int i = 0; i < 4; ++i) bytes += frame(data_frame, 0, stream, std::string(16'000, 'x'));
  }
  EXPECT_LT(peak_of(bytes), mib);
}

TEST_F(Http2Hostile, BodiesThatNobodyReadsHoldLittle) {
  std::string bytes = hundred_requests("POST", "/pieces", 0);
  for (std::uint32_t stream = 1; stream < 32; stream += 2) {
    bytes += frame(data_frame, 0, stream, std::string(16'000, 'x'));
  }
  EXPECT_LT(peak_of(bytes), mib);
}

TEST_F(Http2Hostile, DataForResetStreamsHoldNothing) {
  // The server has responded, and resets the stream, which the client cannot know yet.
  std::string bytes = request_frame(1, "POST", "/none", 0);
  for (int i = 0; i < 200; ++i) bytes += frame(data_frame, 0, 1, std::string(16'000, 'x'));
  EXPECT_LT(peak_of(bytes), mib / 4);
  EXPECT_EQ(on->metrics().http2.floods, 0u);
}

TEST_F(Http2Hostile, ResetsOfRunningHandlersHoldLittle) {
  std::string bytes;
  for (std::uint32_t stream = 1; stream < 2000; stream += 2) {
    bytes += request_frame(stream, "GET", "/slow") + frame(reset_frame, 0, stream, big_endian(8));
  }
  EXPECT_LT(peak_of(bytes), mib / 4);
  EXPECT_EQ(on->metrics().http2.floods, 1u);
}

TEST_F(Http2Hostile, ResetsThatTheServerMustSendEndTheConnection) {
  // A window that is too large makes the server reset the stream (CVE-2025-8671).
  const http2_client& client = connect_idle();
  const std::size_t idle = memory();
  for (std::uint32_t stream = 1; stream < 2000 && on->metrics().http2.floods == 0;) {
    std::string bytes;
    for (int i = 0; i < 50; ++i, stream += 2) {
      bytes += request_frame(stream, "GET", "/slow") + window_update(stream, 0x7fffffff);
    }
    attack(client, bytes);
    EXPECT_LT(memory(), idle + mib / 4);
  }
  EXPECT_EQ(on->metrics().http2.floods, 1u);
}

TEST_F(Http2Hostile, FloodsEndTheConnection) {
  const std::vector<std::string> floods{
      frame(ping_frame, 0, 0, "12345678"),
      frame(settings_frame, 0, 0),
      setting(initial_window, 65'535),
      frame(priority_frame, 0, 1, big_endian(3) + 'x'),
      window_update(0, 1),
      frame(0x5e, 0, 0, "x"),
      frame(data_frame, 0, 1),
  };
  std::uint64_t count = 0;
  for (const std::string& each : floods) {
    std::string bytes = request_frame(1, "POST", "/pieces", 0);
    for (int i = 0; i < 3000; ++i) bytes += each;
    EXPECT_LT(peak_of(bytes), mib / 2);
    EXPECT_EQ(on->metrics().http2.floods, ++count);
  }
}

TEST_F(Http2Hostile, AHeadOfManyFramesEndsTheConnection) {
  std::string bytes = frame(headers_frame, end_stream, 1, block_of(request_fields("GET", "/slow")));
  for (int i = 0; i < 100; ++i) bytes += frame(continuation_frame, 0, 1, literal("a", "b"));
  EXPECT_LT(peak_of(bytes), mib / 4);
  EXPECT_EQ(on->metrics().http2.floods, 1u);
}

TEST_F(Http2Hostile, CrumbsOfCookiesCountAsFields) {
  std::string bytes;
  for (std::uint32_t stream = 1; stream < 20; stream += 2) {
    std::string block = block_of(request_fields("GET", "/slow"));
    block += std::string(4000, '\xa0');  // "cookie" without a value, from the static table
    bytes += frame(headers_frame, end_stream | end_headers, stream, block);
  }
  EXPECT_LT(peak_of(bytes), mib / 4);
}

TEST_F(Http2Hostile, FiveHundredConnectionsHoldLittle) {
  EXPECT_LT(peak_of_500(no_window() + hundred_requests("GET", "/medium")), 64 * mib);
  // An honest client is served, in spite of them.
  http2_client& honest = connect_idle();
  honest.send(request_frame(1, "GET", "/medium"));
  wait_for(honest, "DATA 1 end");
  EXPECT_EQ(honest.bodies[1].size(), 32'000u);
}

// --- Turns of the loop ---

TEST_F(Http2Hostile, OthersHaveTheirTurnBeforeABurstIsHandled) {
  // Requests, fields of which each is a byte, and frames that cost more than they carry.
  const std::string cookies = block_of(request_fields("GET", "/slow")) + std::string(4000, '\xa0');
  std::string resets;
  for (std::uint32_t stream = 1; stream < 300; stream += 2) {
    resets += request_frame(stream, "GET", "/slow") + frame(reset_frame, 0, stream, big_endian(8));
  }
  std::string settings;
  for (int i = 0; i < 900; ++i) settings += setting(initial_window, 65'535);
  std::string requests;
  for (std::uint32_t stream = 1; stream < 180; stream += 2) {
    requests += request_frame(stream, "GET", "/slow");
  }
  const std::vector<std::string> bursts{requests, resets, settings,
                                        frame(headers_frame, end_stream | end_headers, 1, cookies)};
  for (const std::string& burst : bursts) {
    const http2_client& hostile = connect_idle();
    http2_client& honest = connect_idle();
    hostile.send(burst + request_frame(1001, "GET", "/last"));
    honest.send(request_frame(1, "GET", "/medium"));
    turn_until_response(honest);
    EXPECT_EQ(last_requests, 0);
    virtual_time.turn_until([this] { return last_requests == 1; });
    last_requests = 0;
  }
}

// Sends ten requests, whose handlers wait, from each of several new clients.
void Http2Hostile::attack_as_new_clients(std::size_t clients) {
  std::string requests;
  for (std::uint32_t stream = 1; stream < 20; stream += 2) {
    requests += request_frame(stream, "GET", "/slow");
  }
  std::vector<const http2_client*> all;
  for (std::size_t i = 0; i < clients; ++i) all.push_back(&connect_idle());
  for (const http2_client* each : all) each->send(requests);
}

TEST_F(Http2Hostile, NewClientsShareTheWorkOfATurn) {
  constexpr std::size_t clients = 40;
  attack_as_new_clients(clients);
  EXPECT_LE(turn_until_active(10 * clients), 8u);
}

TEST_F(Http2Hostile, ANewClientDoesNotWaitForAllRequestsOfOthers) {
  constexpr std::size_t clients = 40;
  http2_client& honest = connect_idle();
  attack_as_new_clients(clients);
  turn_until_active(4);
  honest.send(request_frame(1, "GET", "/none"));
  turn_until_response(honest);
  EXPECT_LT(on->metrics().active, 8 * clients);
}

// A stop is dear, since it throws through all frames of a handler.
TEST_F(Http2Hostile, FewHandlersOfAClientThatLeavesAreStoppedInATurn) {
  for (const char* path : {"/pieces", "/read"}) {
    for (const bool is_half_closed : {false, true}) {
      http2_client hostile = connect_http2();
      hostile.send(hundred_requests("POST", path, 0));
      turn_until_active(100);
      is_half_closed ? hostile.socket.end_sending() : hostile.socket.close();
      EXPECT_LE(turn_until_active(0), 4u) << path << is_half_closed;
    }
  }
}

TEST_F(Http2Hostile, RequestsAreCountedWithTheirState) {
  http2_client& client = connect_idle();
  const std::size_t idle = memory();
  client.send(hundred_requests("GET", "/slow"));
  virtual_time.turn_until([this] { return on->metrics().active == 100; });
  virtual_time.settle();
  EXPECT_GT(memory() - idle, std::size_t{100} * 2000);
}

TEST_F(Http2Hostile, AConnectionThatIsUsedGetsItsRequestsHandledTogether) {
  http2_client& used = connect_idle();
  for (std::uint32_t stream = 1; stream < 120; stream += 2) {
    used.send(request_frame(stream, "GET", "/none"));
    wait_for(used, "HEADERS " + std::to_string(stream) + ' ');
  }
  std::string bytes;
  for (std::uint32_t stream = 121; stream < 321; stream += 2) {
    bytes += request_frame(stream, "GET", "/slow");
  }
  used.send(bytes);
  virtual_time.turn_until([this] { return on->metrics().active != 0; });
  EXPECT_EQ(on->metrics().active, 100u);
}

TEST_F(Http2Hostile, TheMemoryIsFreeAfterwards) {
  const std::size_t before = memory();
  for (const char* path : {"/large", "/stream", "/slow"}) {
    http2_client client = connect_http2();
    client.send(no_window() + hundred_requests("GET", path));
    virtual_time.turn_until([&] { return on->metrics().active != 0 || memory() > mib / 4; });
    client.socket.close();
    virtual_time.turn_until([&] { return on->metrics().tcp.connections == 0; });
    EXPECT_EQ(memory(), before);
  }
}

}  // namespace
}  // namespace server_http2_hostile_test
