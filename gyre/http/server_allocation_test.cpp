// SPDX-License-Identifier: Apache-2.0
// Tests that answering a request allocates nothing: every allocation of this program is counted.
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace http_server_allocation_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::http::request;
using gyre::http::response;
using gyre::testing::allocations;

class HttpServerAllocation : public testing::Test {
 protected:
  HttpServerAllocation() {
    server_.get("/function/{name}", [](request& request) {
      return response::borrowed("text/plain", request.field("User-Agent").value_or("none"));
    });
    server_.get("/coroutine", [](request&) -> task<response> {
      co_return response::borrowed("text/plain", "Hello, world!");
    });
    server_.post("/echo",
                 [](request& request) { return response::borrowed("text/plain", request.body()); });
    server_.group("/typed").get("/{id}", [](request& request) {
      const bool is_right = request.param<int>("id") == 7 && request.query<double>("x", 0) == 1.5;
      return response::borrowed("text/plain", is_right ? "right" : "wrong");
    });
    server_.start();
  }

  std::size_t allocations_for(std::string_view text, int count) {
    const std::size_t before = allocations();
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(::send(client_.fd(), text.data(), text.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(text.size()));
      std::array<char, 4096> answer;
      turn_until(loop_, [&] { return ::recv(client_.fd(), answer.data(), answer.size(), 0) > 0; });
      EXPECT_EQ(std::string_view(answer.data(), 15), "HTTP/1.1 200 OK");
    }
    return allocations() - before;
  }
  void expect_none_for(const std::string& text) {
    allocations_for(text, 3);
    EXPECT_EQ(allocations_for(text, 500), 0u);
  }

 private:
  gyre::loop loop_;
  gyre::http::server server_{loop_, any_port()};
  peer client_{server_.local_endpoint()};
};

TEST_F(HttpServerAllocation, NoneForAFunction) {
  expect_none_for("GET /function/x?page=7 HTTP/1.1\r\nHost: a\r\nUser-Agent: a test\r\n\r\n");
}
TEST_F(HttpServerAllocation, NoneForARouteOfAGroupAndTypedParameters) {
  expect_none_for("GET /typed/7?y=a+text+of+some+length&x=1.5 HTTP/1.1\r\nHost: a\r\n\r\n");
}
TEST_F(HttpServerAllocation, NoneForACoroutine) {
  expect_none_for("GET /coroutine HTTP/1.1\r\nHost: a\r\n\r\n");
}
TEST_F(HttpServerAllocation, NoneForABody) {
  expect_none_for("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1024\r\n\r\n" +
                  std::string(1024, 'x'));
}
TEST_F(HttpServerAllocation, NoneForAChunkedBody) {
  expect_none_for(
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n0\r\n\r\n");
}

}  // namespace
}  // namespace http_server_allocation_test
