// SPDX-License-Identifier: Apache-2.0
// Tests how much memory an idle WebSocket of a server holds above an idle connection of TCP.
#include <gyre/base/slab.hpp>
#include <gyre/http/accept_websocket.hpp>
#include <gyre/http/detail/served_websocket.hpp>
#include <gyre/http/detail/websocket_protocol.hpp>
#include <gyre/http/server.hpp>
#include <gyre/http/websocket.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http_websocket_memory_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::http::websocket;
using gyre::http::websocket_connection;
using gyre::http::websocket_message;
using gyre::testing::bytes_held;

// A library that is compiled without optimisation has larger coroutine frames.
#ifdef NDEBUG
constexpr std::int64_t frame_factor = 1;
#else
constexpr std::int64_t frame_factor = 2;
#endif
constexpr std::size_t warm_up = 100;
constexpr std::size_t measured = 400;

task<> echo(websocket& socket) {
  while (auto message = co_await socket.receive()) {
    co_await socket.send(*message);
  }
}

// The memory that one connection holds, in blocks of slabs and in bytes of the heap.
struct blocks_held {
  std::int64_t blocks = 0;  // of slabs
  std::int64_t heap_bytes = 0;
};

class HttpWebsocketMemory : public testing::Test {
 protected:
  HttpWebsocketMemory() {
    server_.get("/coroutine", [](const gyre::http::request& request) {
      return gyre::http::accept_websocket(request, echo);
    });
    server_.get("/captures", [this](const gyre::http::request& request) {
      return gyre::http::accept_websocket(request, [this](websocket& socket) -> task<> {
        while (auto message = co_await socket.receive()) {
          ++messages_;
          co_await socket.send(*message);
        }
      });
    });
    server_.get("/callbacks", [](const gyre::http::request& request) {
      gyre::http::websocket_handlers handlers;
      handlers.on_message(
          [](websocket_connection& socket, websocket_message message) { socket.send(message); });
      return gyre::http::accept_websocket(request, std::move(handlers));
    });
    server_.start();
    tcp_.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
      connection.send(input.bytes());
      input.consume_all();
    });
    tcp_.start();
  }

  // Returns the bytes that the program holds for each idle WebSocket of `path`.
  std::int64_t held_by_websocket(const std::string& path, std::size_t message_size) {
    const std::string head = "GET " + path +
                             " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                             "Sec-WebSocket-Version: 13\r\n"
                             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    // The mask of the frame is zero, so that its payload is the text itself.
    std::string frame = message_size < 126 ? std::string(6, '\0') : std::string(8, '\0');
    frame[0] = '\x82';
    if (message_size < 126) {
      frame[1] = static_cast<char>(0x80 | message_size);
    } else {
      frame[1] = '\xfe';
      frame[2] = static_cast<char>(message_size >> 8);
      frame[3] = static_cast<char>(message_size & 0xff);
    }
    frame.append(message_size, 'x');
    return held_by_each(server_.local_endpoint(), [&](int fd) {
      exchange(fd, head, "\r\n\r\n");
      exchange(fd, frame, std::string_view(frame).substr(frame.size() - message_size));
    });
  }
  std::int64_t held_by_tcp() {
    return held_by_each(tcp_.local_endpoint(), [&](int fd) { exchange(fd, "hello", "hello"); });
  }

 private:
  // Sends `bytes`, and receives until `end`.
  void exchange(int fd, std::string_view bytes, std::string_view end) {
    ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    received_.clear();
    turn_until(loop_, [&] {
      std::array<char, 4096> part;
      const ssize_t count = ::recv(fd, part.data(), part.size(), MSG_DONTWAIT);
      if (count > 0) received_.append(part.data(), static_cast<std::size_t>(count));
      return received_.ends_with(end);
    });
  }
  template <class Use>
  std::int64_t held_by_each(const gyre::net::endpoint& server, Use use) {
    std::vector<peer> peers;
    peers.reserve(warm_up + measured);
    std::int64_t before = 0;
    blocks_held held_before;
    for (std::size_t i = 0; i < warm_up + measured; ++i) {
      if (i == warm_up) {
        before = settled_bytes();
        held_before = read_blocks();
      }
      use(peers.emplace_back(server).fd());
    }
    const std::int64_t growth = settled_bytes() - before;
    const blocks_held held = read_blocks();
    constexpr auto count = static_cast<std::int64_t>(measured);
    each_holds_ = {.blocks = (held.blocks - held_before.blocks) / count,
                   .heap_bytes = (held.heap_bytes - held_before.heap_bytes) / count};
    return growth / count;
  }
  static blocks_held read_blocks() {
    return {.blocks = static_cast<std::int64_t>(gyre::read_slab_stats().blocks_in_use),
            .heap_bytes = gyre::testing::bytes_in_use()};
  }
  std::int64_t settled_bytes() {
    while (loop_.poll()) {
    }
    gyre::slab_trim();
    return bytes_held();
  }
  static gyre::net::tcp_server_options many() {
    gyre::net::tcp_server_options options;
    options.connections_per_address = gyre::net::tcp_server_options::unlimited;
    return options;
  }

  gyre::loop loop_;
  gyre::http::server server_{loop_, any_port(), {.tcp = many()}};
  gyre::net::tcp_server tcp_{loop_, any_port(), many()};
  std::string received_;
  std::size_t messages_ = 0;

 protected:
  blocks_held each_holds_;  // of the last measurement
};

// Counts blocks, too: the third one is the frame of the program's own function, whose size is the
// business of the compiler.
TEST_F(HttpWebsocketMemory, AnIdleSocketOfACoroutineHolds256BytesAndItsFrameAboveTcp) {
  const std::int64_t of_tcp = held_by_tcp();
  const blocks_held blocks_of_tcp = each_holds_;
  const std::int64_t of_websocket = held_by_websocket("/coroutine", 16);
  EXPECT_LE(each_holds_.heap_bytes, blocks_of_tcp.heap_bytes + 16);
  EXPECT_EQ(each_holds_.blocks, blocks_of_tcp.blocks + 3);
  // The protocol with its state, and 32 for the context of the TCP connection.
  static_assert(gyre::detail::records_backtraces ||
                sizeof(gyre::http::detail::served_websocket) <= 224);
  EXPECT_LE(of_websocket - of_tcp, 740 * frame_factor);
  RecordProperty("bytes", static_cast<int>(of_websocket - of_tcp));
}

TEST_F(HttpWebsocketMemory, AFunctionWithCapturesHoldsABlockMore) {
  held_by_tcp();
  const blocks_held of_tcp = each_holds_;
  held_by_websocket("/captures", 16);
  EXPECT_LE(each_holds_.heap_bytes, of_tcp.heap_bytes + 16);
  EXPECT_EQ(each_holds_.blocks, of_tcp.blocks + 4);
}

// Counts blocks, because the bytes of a slab that is filled in part are those of many sockets.
TEST_F(HttpWebsocketMemory, AnIdleSocketOfCallbacksHolds208BytesAboveTcp) {
  held_by_tcp();
  const blocks_held of_tcp = each_holds_;
  held_by_websocket("/callbacks", 16);
  // Tables of the loop and of the server grow now and then; a block of the heap has 24 bytes.
  EXPECT_LE(each_holds_.heap_bytes, of_tcp.heap_bytes + 16);
  // The protocol, of at most 176 bytes, and 32 for the context of the TCP connection.
  static_assert(sizeof(gyre::http::detail::handler_protocol) <= 176);
  EXPECT_EQ(each_holds_.blocks, of_tcp.blocks + 2);
}

TEST_F(HttpWebsocketMemory, AnIdleSocketHoldsNoMemoryOfItsMessages) {
  const std::int64_t after_short_messages = held_by_websocket("/coroutine", 16);
  const std::int64_t after_long_messages = held_by_websocket("/coroutine", 30'000);
  EXPECT_LE(after_long_messages, after_short_messages + 100);
}

}  // namespace
}  // namespace http_websocket_memory_test
