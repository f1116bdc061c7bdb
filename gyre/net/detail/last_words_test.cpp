// SPDX-License-Identifier: Apache-2.0
// Tests of last_words() with a transport that takes the bytes it receives for its error.
#include <gyre/net/detail/last_words.hpp>

#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>

namespace last_words_test {
namespace {

const std::error_code broken_pipe = std::make_error_code(std::errc::broken_pipe);
const std::error_code refused = std::make_error_code(std::errc::permission_denied);

// A transport after its handshake, to which every message of the peer is a refusal.
class refused_filter final : public gyre::net::transport_filter {
 public:
  std::error_code shake_hands(std::span<const std::byte>, gyre::io::buffer&) override { return {}; }
  bool is_established() const noexcept override { return true; }
  std::error_code open(std::span<const std::byte> received, gyre::io::buffer&,
                       gyre::io::buffer&) override {
    return received.empty() ? std::error_code() : refused;
  }
  bool has_ended() const noexcept override { return false; }
  bool may_seal() const noexcept override { return true; }
  std::error_code seal(std::span<const std::byte>, gyre::io::buffer&) override { return {}; }
  void seal_end(gyre::io::buffer&) override {}
  std::error_code end_of_bytes() const noexcept override { return {}; }
};

TEST(LastWordsOfAPeer, CountThoughASignalInterruptsTheRead) {
  const auto [near, far] = gyre::test::unix_pair();
  ASSERT_EQ(::write(far.get(), "no", 2), 2);
  refused_filter filter;
  const gyre::testing::fault interrupted("recv", EINTR, {.times = 2});
  EXPECT_EQ(gyre::net::detail::last_words(near.get(), filter, broken_pipe), refused);
  EXPECT_EQ(interrupted.hits(), 2);
}

TEST(LastWordsOfAPeer, WithoutAnyTheErrorOfSendingCounts) {
  const auto [near, far] = gyre::test::unix_pair();
  refused_filter filter;
  EXPECT_EQ(gyre::net::detail::last_words(near.get(), filter, broken_pipe), broken_pipe);
}

}  // namespace
}  // namespace last_words_test
