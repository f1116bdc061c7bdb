// SPDX-License-Identifier: Apache-2.0
// Tests of read_peer_failure() with a layer that takes the bytes it receives for its error.
#include <gyre/net/detail/peer_failure.hpp>

#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>

namespace peer_failure_test {
namespace {

const std::error_code broken_pipe = std::make_error_code(std::errc::broken_pipe);
const std::error_code refused = std::make_error_code(std::errc::permission_denied);

// A layer to which every message of the peer is a refusal.
class refused_layer final : public gyre::net::layer {
 public:
  status read(std::span<std::byte>, std::size_t& count) override {
    count = 0;
    return peek();
  }
  status peek() override { return unread().empty() ? status::wants_input : fail(refused); }
  status write(std::span<const std::byte>) override { return status::done; }
};

TEST(LastWordsOfAPeer, CountThoughASignalInterruptsTheRead) {
  const auto [near, far] = gyre::test::unix_pair();
  ASSERT_EQ(::write(far.get(), "no", 2), 2);
  refused_layer protocol;
  const gyre::testing::fault interrupted("recv", EINTR, {.times = 2});
  EXPECT_EQ(gyre::net::detail::read_peer_failure(near.get(), protocol, broken_pipe), refused);
  EXPECT_EQ(interrupted.hits(), 2);
}

TEST(LastWordsOfAPeer, WithoutAnyTheErrorOfSendingCounts) {
  const auto [near, far] = gyre::test::unix_pair();
  refused_layer protocol;
  EXPECT_EQ(gyre::net::detail::read_peer_failure(near.get(), protocol, broken_pipe), broken_pipe);
}

}  // namespace
}  // namespace peer_failure_test
