// SPDX-License-Identifier: Apache-2.0
// Tests of ticket_keys: their rotation by time.
#include <gyre/tls/detail/ticket_keys.hpp>

#include <gtest/gtest.h>

namespace ticket_keys_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::tls::detail::ticket_keys;

const steady_time begin{1000h};

TEST(TicketKeys, OneKeyMakesTicketsForHalfOfTheLifetime) {
  ticket_keys keys(12h);
  const auto first = keys.newest(begin);
  ASSERT_TRUE(first);
  EXPECT_EQ(keys.newest(begin + 5h)->name, first->name);
  const auto second = keys.newest(begin + 6h);
  EXPECT_NE(second->name, first->name);
  EXPECT_NE(second->cipher, first->cipher);
  EXPECT_NE(second->mac, first->mac);
}

TEST(TicketKeys, AnOldKeyStillOpensTicketsButIsNotTheNewest) {
  ticket_keys keys(12h);
  const auto first = keys.newest(begin);
  EXPECT_TRUE(keys.find(first->name, begin + 1h)->is_newest);
  ASSERT_TRUE(keys.newest(begin + 7h));
  const auto found = keys.find(first->name, begin + 8h);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_newest);
  EXPECT_EQ(found->key.cipher, first->cipher);
}

TEST(TicketKeys, AKeyIsForgottenAfterItsLifetime) {
  ticket_keys keys(12h);
  const auto first = keys.newest(begin);
  EXPECT_TRUE(keys.find(first->name, begin + 12h - 1ns));
  EXPECT_FALSE(keys.find(first->name, begin + 12h));
  EXPECT_FALSE(keys.find(first->name, begin));
}

TEST(TicketKeys, AnUnknownNameIsNotFound) {
  ticket_keys keys(12h);
  ASSERT_TRUE(keys.newest(begin));
  const std::array<unsigned char, 16> other{};
  EXPECT_FALSE(keys.find(other, begin));
}

}  // namespace
}  // namespace ticket_keys_test
