// SPDX-License-Identifier: Apache-2.0
// Tests of the system calls for an answered request: one to receive it, unless the ring does, and
// one to send the answer; for pipelined requests, or messages of a WebSocket, one to send all
// answers.
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/server.hpp>
#include <gyre/io/uring_support.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/testing/system_call_faults.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace http_server_calls_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::http::request;
using gyre::http::response;
using gyre::testing::calls_made;

task<> echo(gyre::http::websocket& socket) {
  while (auto message = co_await socket.receive()) co_await socket.send(*message);
}

struct calls {
  std::size_t received;
  std::size_t sent;
};

class counted_server {
 protected:
  counted_server() {
    server_.get("/function", [](request&) { return response::text("Hello, world!"); });
    server_.get("/coroutine",
                [](request&) -> task<response> { co_return response::text("Hello, world!"); });
    server_.get("/file", [this](request&) {
      return response::file("text/plain", gyre::unique_fd(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0)),
                            0, file_text.size());
    });
    EXPECT_EQ(::write(file_.get(), file_text.data(), file_text.size()), std::ssize(file_text));
    server_.get("/socket",
                [](request& request) { return gyre::http::accept_websocket(request, echo); });
    server_.start();
  }

  static std::string request_for(std::string_view path, std::string_view fields = {}) {
    std::string text = "GET ";
    return text.append(path).append(" HTTP/1.1\r\nHost: a\r\n").append(fields).append("\r\n");
  }
  peer connect() const { return peer(server_.local_endpoint()); }

  /// Sends `bytes`, and runs the loop until `count` answers that end with `end` have come.
  void exchange(const peer& client, std::string_view bytes, std::string_view end,
                std::size_t count) {
    EXPECT_EQ(::write(client.fd(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    std::string text;
    for (std::size_t answers = 0; answers < count;) {
      pollfd waiting{client.fd(), POLLIN, 0};
      while (::poll(&waiting, 1, 0) != 1) loop_.poll();
      std::array<char, 4096> buffer;
      const ssize_t size = ::read(client.fd(), buffer.data(), buffer.size());
      if (size <= 0) {
        ADD_FAILURE() << "the connection has ended";
        return;
      }
      text.append(buffer.data(), static_cast<std::size_t>(size));
      for (std::size_t at = text.find(end); at != std::string::npos; at = text.find(end)) {
        text.erase(0, at + end.size());
        ++answers;
      }
    }
  }
  /// Calls of this thread for batches of `count` equal requests or messages, each sent after the
  /// answers to the one before.
  calls calls_for(const peer& client, std::size_t batches, std::string_view one,
                  std::size_t count) {
    std::string batch;
    for (std::size_t i = 0; i < count; ++i) batch += one;
    for (int i = 0; i < 3; ++i) exchange(client, batch, "world!", count);
    const calls before{calls_made("recv"), calls_made("send")};
    for (std::size_t i = 0; i < batches; ++i) exchange(client, batch, "world!", count);
    return {calls_made("recv") - before.received, calls_made("send") - before.sent};
  }
  bool receives_by_the_ring() const {
    return std::string_view(loop_.metrics().io) == "uring" &&
           gyre::io::probe_uring().features.multishot_receive;
  }
  void expect_one_of_each(const calls& counts, std::size_t batches) const {
    constexpr std::size_t few = 4;
    EXPECT_GE(counts.sent, batches);
    EXPECT_LE(counts.sent, batches + few);
    if (receives_by_the_ring()) {
      EXPECT_LE(counts.received, few);
    } else if (std::string_view(loop_.metrics().io) != "uring") {
      EXPECT_LE(counts.received, batches + few);
    }
  }

 protected:
  static constexpr std::string_view file_text = "Hello, file of the world!";
  gyre::unique_fd file_{::memfd_create("file", MFD_CLOEXEC)};
  gyre::loop loop_;

 private:
  gyre::http::server server_{loop_, any_port()};
};

class HttpServerCalls : public counted_server, public testing::TestWithParam<std::string_view> {};

TEST_P(HttpServerCalls, AreTwoForARequest) {
  expect_one_of_each(calls_for(connect(), 200, request_for(GetParam()), 1), 200);
}

TEST_P(HttpServerCalls, AreTwoForABatchOfPipelinedRequests) {
  expect_one_of_each(calls_for(connect(), 200, request_for(GetParam()), 16), 200);
}

INSTANTIATE_TEST_SUITE_P(, HttpServerCalls, testing::Values("/function", "/coroutine", "/file"),
                         [](const auto& which) {
                           return which.param == "/function"    ? "Function"
                                  : which.param == "/coroutine" ? "Coroutine"
                                                                : "ShortFile";
                         });

class HttpServerFile : public counted_server, public testing::Test {};

TEST_F(HttpServerFile, IsReadIfItIsShort) {
  const std::size_t before = calls_made("sendfile");
  exchange(connect(), request_for("/file"), file_text, 1);
  EXPECT_EQ(calls_made("sendfile"), before);
}

TEST_F(HttpServerFile, ThatCannotBeReadCutsTheResponseOff) {
  const gyre::testing::fault reading("pread", EIO);
  const peer client = connect();
  const std::string text = request_for("/file");
  ASSERT_EQ(::write(client.fd(), text.data(), text.size()), std::ssize(text));
  std::array<char, 4096> buffer;
  ssize_t size = 0;
  do {
    pollfd waiting{client.fd(), POLLIN, 0};
    while (::poll(&waiting, 1, 0) != 1) loop_.poll();
    size = ::recv(client.fd(), buffer.data(), buffer.size(), 0);
    EXPECT_EQ(std::string_view(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)))
                  .find(file_text),
              std::string_view::npos);
  } while (size > 0);
  EXPECT_EQ(size, -1) << "the end would look like that of a whole response";
  EXPECT_EQ(errno, ECONNRESET);
}

class HttpServerWebSocketCalls : public counted_server, public testing::Test {};

TEST_F(HttpServerWebSocketCalls, AreTwoForABatchOfMessages) {
  const peer client = connect();
  exchange(client,
           request_for("/socket",
                       "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
           "\r\n\r\n", 1);
  const std::string message("\x81\x8D\0\0\0\0Hello, world!", 19);
  expect_one_of_each(calls_for(client, 200, message, 16), 200);
}

}  // namespace
}  // namespace http_server_calls_test
