// SPDX-License-Identifier: Apache-2.0
// A tcp_client connects in the end, whichever allocation fails meanwhile, and needs no memory to end.
#include <gyre/net/tcp_client.hpp>

#include <gtest/gtest.h>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_server.hpp>
#include <tests/support/full_inbox.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

namespace {

long allocations_before_failure = -1;  // negative: none fails

// Both out of line: GCC should not look through new and delete and find aligned_alloc and free.
[[gnu::noinline]] void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (allocations_before_failure >= 0 && allocations_before_failure-- == 0) return nullptr;
  const std::size_t parts = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment;
  return std::aligned_alloc(alignment, parts * alignment);
}
[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

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
      const gyre::steady_time deadline = gyre::detail::monotonic_now() + 30s;
      while (!up && gyre::detail::monotonic_now() < deadline) {
        try {
          loop.run_for(100us);
        } catch (const std::bad_alloc&) {
          continue;  // the loop's own
        }
      }
      failed = allocations_before_failure < 0;
      allocations_before_failure = -1;
      ASSERT_TRUE(up) << "allocation " << before << (by_name ? " by name" : "");
    }
  }
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

}  // namespace
