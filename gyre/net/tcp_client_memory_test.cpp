// SPDX-License-Identifier: Apache-2.0
// Tests that a tcp_client connects eventually, whichever allocation fails meanwhile, and needs no
// memory to end; that a server survives a lack of memory for its peers' bytes; and of the memory of
// an idle connection.
#include <gyre/net/tcp_client.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/framing.hpp>
#include <gyre/net/read_frame.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/spawn.hpp>
#include <tests/support/full_inbox.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <malloc.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace {

long allocations_before_failure = -1;  // negative: none fails
std::size_t bytes_allocated = 0;       // and not released

// Both functions are out of line: otherwise GCC inlines new and delete and finds aligned_alloc and
// free.
[[gnu::noinline]] void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (allocations_before_failure >= 0 && allocations_before_failure-- == 0) return nullptr;
  const std::size_t parts = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment;
  void* const memory = std::aligned_alloc(alignment, parts * alignment);
  bytes_allocated += ::malloc_usable_size(memory);
  return memory;
}
[[gnu::noinline]] void release(void* memory) noexcept {
  bytes_allocated -= ::malloc_usable_size(memory);
  std::free(memory);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  if (void* const memory = allocate(size, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return allocate_or_throw(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace {

using namespace gyre::net::test;
using gyre::net::tcp_client;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;

TEST(TcpClientWithoutMemory, ConnectsInTheEnd) {
  for (const bool by_name : {false, true}) {
    bool failed = true;
    for (long before = 0; failed; ++before) {
      bool up = false;
      gyre::loop loop({.on_exception = [](std::exception_ptr) {}});
      tcp_server server(loop);
      server.listen(any_port());
      server.start();
      settle(loop);
      std::optional<gyre::net::resolver> names(std::in_place, loop,
                                               gyre::net::resolver_options{.search_domains = {{}}});
      tcp_client client(loop, {.reconnect = true, .initial_delay = 0s});
      client.on_connection([&](tcp_connection&) { up = true; })
          .on_connect_failed([](std::error_code, std::size_t, bool) {});
      const gyre::net::service port = server.local_endpoint().port();
      if (by_name) {
        client.connect(*names, "localhost", port);
      } else {
        client.connect(server.local_endpoint());
      }
      allocations_before_failure = before;
      while (!up) {
        try {
          loop.run_for(100us);
        } catch (const std::bad_alloc&) {
          continue;  // a failure of the loop's own
        }
      }
      failed = allocations_before_failure < 0;
      allocations_before_failure = -1;
    }
  }
}

// The connections that `add` makes: blocks of the slab, and other memory.
template <class Add>
void expect_memory_of_each(Add&& add, std::size_t blocks, std::size_t bytes) {
  add(130);  // the loop's tables have room for 256
  const std::size_t allocated = bytes_allocated;
  const std::size_t in_use = gyre::read_slab_stats().blocks_in_use;
  const std::size_t connections = 120;
  add(connections);
  EXPECT_LE(bytes_allocated, allocated + bytes * connections);
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, in_use + blocks * connections);
}

// A block of the slab, without the loss of aligned operator new.
TEST(IdleConnection, TakesLittleMemory) {
  gyre::loop loop;
  tcp_server server(loop);
  std::size_t echoed = 0;
  server.on_message([&](tcp_connection& from, gyre::io::input& in) {
    from.send(in.bytes());
    in.consume_all();
    ++echoed;
  });
  server.start();
  std::vector<gyre::unique_fd> clients;
  const auto add = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto [left, right] = gyre::test::unix_pair();
      ASSERT_EQ(::send(right.get(), "x", 1, MSG_NOSIGNAL), 1);
      clients.push_back(std::move(right));
      server.adopt(std::move(left));
    }
    turn_until(loop, [&] { return echoed == clients.size(); });
  };
  clients.reserve(300);
  expect_memory_of_each(add, 1, 16);
}

TEST(IdleConnection, InACoroutineTakesThreeBlocksOfTheSlab) {
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, any_port());
  std::size_t echoed = 0;
  const auto answer = [&echoed](gyre::net::tcp_stream peer) -> gyre::task<> {
    try {
      for (;;) {
        gyre::io::received data = co_await peer.receive();
        if (data.empty()) co_return;
        co_await peer.write_all(std::move(data));
        ++echoed;
      }
    } catch (const std::system_error&) {
      co_return;  // the client has gone without reading its byte
    }
  };
  const auto accept = [&](gyre::net::tcp_listener& from) -> gyre::task<> {
    for (;;) {
      gyre::net::tcp_stream accepted = co_await from.accept();
      gyre::spawn(loop, answer(std::move(accepted)));
    }
  };
  gyre::inplace_stop_source stop;
  gyre::spawn(loop, accept(listener), {.stop = stop.get_token()});
  std::vector<peer> clients;
  const auto add = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      clients.emplace_back(listener.local_endpoint()).send("x");
    }
    turn_until(loop, [&] { return echoed == clients.size(); });
  };
  clients.reserve(300);
  // Its frame, spawn()'s state and the stream's descriptor; their sizes are asserted where they are
  // defined.
  expect_memory_of_each(add, 3, 32);
  clients.clear();
  stop.request_stop();
  settle(loop);
}

// An allocator of coroutine frames that notes the size of the last one.
template <class T>
struct frame_allocator {
  using value_type = T;
  std::size_t* size;

  explicit frame_allocator(std::size_t* noted_size) noexcept : size(noted_size) {}
  template <class U>
  explicit frame_allocator(const frame_allocator<U>& other) noexcept : size(other.size) {}
  T* allocate(std::size_t count) {
    *size = count * sizeof(T);
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    std::allocator<T>().deallocate(memory, count);
  }
  friend bool operator==(const frame_allocator&, const frame_allocator&) = default;
};

gyre::task<> echo_with(std::allocator_arg_t, frame_allocator<std::byte>,
                       gyre::net::tcp_stream client) {
  try {
    for (;;) {
      gyre::io::received data = co_await client.receive();
      if (data.empty()) co_return;
      co_await client.write_all(std::move(data));
    }
  } catch (const std::system_error&) {
    co_return;
  }
}

// The three blocks: 48 bytes of the stream's descriptor and 48 of spawn()'s state are asserted
// where these are defined. The frame here also has the allocator, twice, and its tag.
TEST(IdleConnection, InACoroutineTakesAtMost312Bytes) {
#ifndef NDEBUG
  GTEST_SKIP() << "frames are larger without optimisation";
#endif
  if (gyre::detail::records_backtraces) GTEST_SKIP() << "frames also have their places";
  std::size_t frame = 0;
  {
    const auto never_started =
        echo_with(std::allocator_arg, frame_allocator<std::byte>(&frame), gyre::net::tcp_stream());
  }
  const std::size_t allocators = 2 * sizeof(frame_allocator<std::byte>) + 16;
  EXPECT_GT(frame, allocators);
  EXPECT_LE(frame - allocators + 48 + 48, 312u);
  RecordProperty("frame", static_cast<int>(frame));
}

TEST(TcpClientWithoutMemory, IsClosedByItsLoopAllTheSame) {
  for (const bool by_its_function : {false, true}) {
    gyre::basic_loop<gyre::test::inbox_that_may_be_full> loop;
    const gyre::net::socket listening =
        gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
    listening.bind(any_port());
    listening.listen();
    std::optional<tcp_client> client(std::in_place, loop);
    const auto destroy = [&] {
      gyre::test::inbox_full = true;
      client.reset();
      gyre::test::inbox_full = false;
    };
    bool up = false;
    client->on_connection([&](tcp_connection&) {
      up = true;
      if (by_its_function) destroy();
    });
    client->connect(listening.local_endpoint());
    turn_until(loop, [&] { return up; });
    peer other(gyre::net::socket(
        gyre::unique_fd(::accept4(listening.fd(), nullptr, nullptr, SOCK_NONBLOCK))));
    if (!by_its_function) destroy();
    EXPECT_TRUE(other.receive_end(loop)) << by_its_function;
    settle(loop);
  }
}

// An exception of a handler or a detached coroutine ends the program, as no loop here has an
// on_exception.
class ServerWithoutMemory : public testing::Test {
 protected:
  // Sends a message in two parts, the first of which has to be kept, while an allocation fails.
  // True if an allocation failed.
  bool send_message(const peer& client, long allocations_before, const auto& first_came,
                    const auto& over) {
    client.send(first_part);
    allocations_before_failure = allocations_before;
    turn_until(loop_, [&] { return first_came() || over(); });
    // Fails if the connection has been reset, which `over` reports.
    static_cast<void>(::send(client.fd(), second_part.data(), second_part.size(), MSG_NOSIGNAL));
    turn_until(loop_, over);
    const bool failed = allocations_before_failure < 0;
    allocations_before_failure = -1;
    return failed;
  }

  const std::string first_part = long_text(100'000);
  const std::string second_part = first_part + '\n';
  gyre::loop loop_;
};

TEST_F(ServerWithoutMemory, ACallbackServerEndsTheReceivingConnection) {
  bool failed = true;
  for (long before = 0; failed; ++before) {
    std::optional<std::error_code> closed;
    tcp_server server(loop_);
    server
        .on_message([](tcp_connection& from, gyre::io::input& in) {
          if (!in.text().ends_with('\n')) return;
          in.consume_all();
          from.send("ok");
        })
        .on_close([&](tcp_connection&, std::error_code why) { closed = why; });
    server.listen(any_port());
    server.start();
    settle(loop_);
    peer client(server.local_endpoint());
    turn_until(loop_, [&] { return server.metrics().connections == 1; });
    failed = send_message(
        client, before,
        [&] { return server.metrics().traffic.bytes_received == first_part.size(); },
        [&] { return closed || server.metrics().traffic.bytes_sent == 2; });
    ASSERT_EQ(closed.has_value(), failed) << "allocation " << before;
    if (failed) {
      ASSERT_EQ(*closed, std::errc::not_enough_memory) << "allocation " << before;
    }
    peer other(server.local_endpoint());
    other.send("\n");
    ASSERT_EQ(other.receive(loop_, 2), "ok");
  }
}

TEST_F(ServerWithoutMemory, ACallbackServerEndsTheConnectionWhoseHandlerThrows) {
  std::optional<std::error_code> closed;
  tcp_server server(loop_);
  server.on_message([](tcp_connection&, gyre::io::input&) { throw std::bad_alloc(); })
      .on_close([&](tcp_connection&, std::error_code why) { closed = why; });
  server.listen(any_port());
  server.start();
  const peer client(server.local_endpoint());
  client.send("x");
  turn_until(loop_, [&] { return closed.has_value(); });
  EXPECT_EQ(*closed, std::errc::not_enough_memory);
}

gyre::task<> answer_lines(gyre::net::tcp_stream client, std::size_t most_held, bool& ended) {
  gyre::net::delimited lines("\n", std::size_t{1} << 20);
  gyre::io::buffer held({.max_size = most_held});
  for (;;) {
    auto reading = gyre::net::read_frame(client, lines, held);
    auto line = co_await gyre::as_expected(std::move(reading));
    if (!line || !*line) break;
    co_await client.write_all("ok");
  }
  ended = true;
}

TEST_F(ServerWithoutMemory, ACoroutineServerEndsTheReceivingConnection) {
  gyre::net::tcp_listener listener(loop_, any_port());
  for (const std::size_t most_held : {std::size_t{300'000}, gyre::io::buffer_options().max_size}) {
    bool failed = true;
    for (long before = 0; failed; ++before) {
      peer client(listener.local_endpoint());
      bool ended = false;
      gyre::spawn(loop_, answer_lines(gyre::sync_wait(loop_, listener.accept()), most_held, ended));
      settle(loop_);
      failed = send_message(
          client, before, [&] { return true; },
          [&] {
            client.receive();
            return ended || client.text == "ok";
          });
      ASSERT_EQ(ended, failed) << "allocation " << before << " of " << most_held;
      client.reset();
      turn_until(loop_, [&] { return ended; });
    }
  }
}

}  // namespace
