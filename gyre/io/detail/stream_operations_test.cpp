// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/stream_operations.hpp>

#include <gyre/io/detail/fair_queue.hpp>
#include <gyre/io/epoll_poller.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <span>

namespace stream_operations_test {
namespace {

using gyre::io::detail::bytes_of_file;

constexpr std::size_t kib = 1024;
constexpr std::size_t share = gyre::io::detail::fair_queue::max_share;

struct no_requests {
  std::span<epoll_event> events;
  gyre::io::detail::epoll_requests io{events};
};

TEST(BytesOfFile, AreAtMostTheShareAndARemainderThatIsNotWorthACall) {
  const no_requests none;
  const gyre::io::backend& io = none.io;
  EXPECT_EQ(bytes_of_file(io, 1), 1u);
  EXPECT_EQ(bytes_of_file(io, share), share);
  EXPECT_EQ(bytes_of_file(io, share + 64 * kib), share + 64 * kib);
  EXPECT_EQ(bytes_of_file(io, share + 64 * kib + 1), share);
}

// The head of an HTTP response uses a part of the share, and most files end on a round number.
TEST(BytesOfFile, AreAWholeShareAfterAFewBytes) {
  no_requests none;
  gyre::io::backend& io = none.io;
  io.charge(121);
  EXPECT_EQ(bytes_of_file(io, share), share);
  EXPECT_EQ(bytes_of_file(io, 2 * share), share - 121);
}

TEST(BytesOfFile, AreWorthACallAfterTheShare) {
  no_requests none;
  gyre::io::backend& io = none.io;
  io.charge(share);
  EXPECT_EQ(bytes_of_file(io, 100 * kib), 100 * kib);
  EXPECT_EQ(bytes_of_file(io, share), 64 * kib);
}

}  // namespace
}  // namespace stream_operations_test
