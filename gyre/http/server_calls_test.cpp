// SPDX-License-Identifier: Apache-2.0
// Tests of the system calls for an answered request: one to receive it, unless the ring does, and
// one to send the answer; for pipelined requests, one to send all answers.
#include <gyre/http/server.hpp>
#include <gyre/io/uring_support.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/testing/system_call_faults.hpp>

#include <gtest/gtest.h>

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace http_server_calls_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::http::request;
using gyre::http::response;
using gyre::testing::calls_made;

struct calls {
  std::size_t received;
  std::size_t sent;
};

class HttpServerCalls : public testing::TestWithParam<std::string_view> {
 protected:
  HttpServerCalls() {
    server_.get("/function", [](request&) { return response::text("Hello, world!"); });
    server_.get("/coroutine",
                [](request&) -> task<response> { co_return response::text("Hello, world!"); });
    server_.start();
  }

  /// Calls of this thread for batches of requests, each sent after the answers to the one before.
  calls calls_for(std::size_t batches, std::size_t requests) {
    const peer client(server_.local_endpoint());
    const std::string one = "GET " + std::string(GetParam()) + " HTTP/1.1\r\nHost: a\r\n\r\n";
    std::string batch;
    for (std::size_t i = 0; i < requests; ++i) batch += one;
    const auto exchange = [&] {
      EXPECT_EQ(::write(client.fd(), batch.data(), batch.size()),
                static_cast<ssize_t>(batch.size()));
      std::size_t answers = 0;
      std::string text;
      while (answers < requests) {
        pollfd waiting{client.fd(), POLLIN, 0};
        while (::poll(&waiting, 1, 0) != 1) loop_.poll();
        std::array<char, 4096> bytes;
        const ssize_t count = ::read(client.fd(), bytes.data(), bytes.size());
        if (count <= 0) {
          ADD_FAILURE() << "the connection has ended";
          break;
        }
        text.append(bytes.data(), static_cast<std::size_t>(count));
        for (std::size_t at = text.find("world!"); at != std::string::npos;
             at = text.find("world!")) {
          text.erase(0, at + 6);
          ++answers;
        }
      }
    };
    for (int i = 0; i < 3; ++i) exchange();
    const calls before{calls_made("recv"), calls_made("send")};
    for (std::size_t i = 0; i < batches; ++i) exchange();
    return {calls_made("recv") - before.received, calls_made("send") - before.sent};
  }
  bool receives_by_the_ring() const {
    return std::string_view(loop_.metrics().io) == "uring" &&
           gyre::io::probe_uring().features.multishot_receive;
  }
  void expect_one_of_each(const calls& made, std::size_t batches) const {
    constexpr std::size_t few = 4;
    EXPECT_GE(made.sent, batches);
    EXPECT_LE(made.sent, batches + few);
    if (receives_by_the_ring()) {
      EXPECT_LE(made.received, few);
    } else if (std::string_view(loop_.metrics().io) != "uring") {
      EXPECT_LE(made.received, batches + few);
    }
  }

 private:
  gyre::loop loop_;
  gyre::http::server server_{loop_, any_port()};
};

TEST_P(HttpServerCalls, AreTwoForARequest) { expect_one_of_each(calls_for(200, 1), 200); }

TEST_P(HttpServerCalls, AreTwoForABatchOfPipelinedRequests) {
  expect_one_of_each(calls_for(200, 16), 200);
}

INSTANTIATE_TEST_SUITE_P(, HttpServerCalls, testing::Values("/function", "/coroutine"),
                         [](const auto& which) {
                           return std::string(which.param == "/function" ? "Function"
                                                                         : "Coroutine");
                         });

}  // namespace
}  // namespace http_server_calls_test
