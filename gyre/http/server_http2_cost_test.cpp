// SPDX-License-Identifier: Apache-2.0
// Tests of the cost of requests over HTTP/2: none allocates, and all frames of a turn leave by one
// system call.
#include <gyre/http/http2_test_support.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/testing/system_call_faults.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace server_http2_cost_test {
namespace {

using namespace gyre::http::test;
using namespace gyre::net::test;
using gyre::task;
using gyre::http::request;
using gyre::http::response;
using gyre::testing::allocations;
using gyre::testing::calls_made;

/// The cost of requests for the server.
struct cost {
  std::size_t allocations;
  std::size_t sends;
};

auto get_of(std::string_view path) {
  return [path](std::uint32_t stream) {
    return request_frame(stream, "GET", path, end_stream, {{"user-agent", "a test of the cost"}});
  };
}

std::string post_of(std::uint32_t stream) {
  return request_frame(stream, "POST", "/echo", 0) +
         frame(data_frame, end_stream, stream, std::string(1024, 'x'));
}

class Http2Cost : public testing::Test {
 protected:
  Http2Cost() {
    server_.get("/function/{name}", [](request& request) {
      return response::borrowed("text/plain", request.field("user-agent").value_or("none"));
    });
    server_.get("/coroutine", [](request&) -> task<response> {
      co_return response::borrowed("text/plain", "Hello, world!");
    });
    server_.get("/later", [](request&) -> task<response> {
      co_await gyre::yield();
      co_return response::borrowed("text/plain", "Hello, world!");
    });
    server_.post("/echo",
                 [](request& request) { return response::borrowed("text/plain", request.body()); });
    server_.start();
    send(client_hello() + frame(settings_frame, ack, 0));
  }

  void send(std::string_view bytes) {
    EXPECT_EQ(::send(client_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Sends the bytes that `make` returns for a stream, `count` times at once, and receives as many
  /// responses.
  template <class Make>
  cost exchange(std::size_t count, Make make) {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) bytes += make(std::exchange(stream_, stream_ + 2));
    // The window of the connection for the responses.
    bytes += window_update(0, static_cast<std::uint32_t>(count) * 2000);
    std::size_t ends = 0;
    std::size_t read = 0;  // bytes of the current frame
    std::array<unsigned char, 9> head{};
    std::size_t rest = 0;
    std::array<unsigned char, 65'536> room;
    const std::size_t allocations_before = allocations();
    const std::size_t sent_before = calls_made("send");
    send(bytes);
    const std::size_t own_sends = 1;
    turn_until(loop_, [&] {
      const ssize_t received = ::recv(client_.fd(), room.data(), room.size(), MSG_DONTWAIT);
      for (ssize_t i = 0; i < received; ++i) {
        if (rest != 0) {
          --rest;
          continue;
        }
        head[read++] = room[static_cast<std::size_t>(i)];
        if (read < head.size()) continue;
        read = 0;
        rest = head[0] * 65'536U + head[1] * 256U + head[2];
        if (head[3] <= headers_frame && (head[4] & end_stream) != 0) ++ends;
      }
      return ends == count;
    });
    return {.allocations = allocations() - allocations_before,
            .sends = calls_made("send") - sent_before - own_sends};
  }
  template <class Make>
  void expect_no_allocation(Make make) {
    for (int i = 0; i < 5; ++i) exchange(20, make);
    std::size_t count = 0;
    for (int i = 0; i < 50; ++i) count += exchange(20, make).allocations;
    EXPECT_EQ(count, 0u);
  }
  template <class Make>
  void expect_one_send(Make make) {
    constexpr std::size_t batches = 100;
    constexpr std::size_t few = 4;
    exchange(20, make);
    std::size_t count = 0;
    for (std::size_t i = 0; i < batches; ++i) count += exchange(20, make).sends;
    EXPECT_GE(count, batches);
    EXPECT_LE(count, batches + few);
  }

 private:
  gyre::loop loop_;
  gyre::http::server server_{loop_, any_port()};
  peer client_{server_.local_endpoint()};
  std::uint32_t stream_ = 1;
};

TEST_F(Http2Cost, NoAllocationForAFunction) { expect_no_allocation(get_of("/function/x")); }
TEST_F(Http2Cost, NoAllocationForACoroutine) { expect_no_allocation(get_of("/coroutine")); }
TEST_F(Http2Cost, NoAllocationForACoroutineThatWaits) { expect_no_allocation(get_of("/later")); }
TEST_F(Http2Cost, NoAllocationForABody) { expect_no_allocation(post_of); }

TEST_F(Http2Cost, OneSendForTheResponsesOfATurn) { expect_one_send(get_of("/function/x")); }
TEST_F(Http2Cost, OneSendForHandlersThatEndLater) { expect_one_send(get_of("/later")); }

}  // namespace
}  // namespace server_http2_cost_test
