// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/message_metadata.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

namespace message_metadata_test {
namespace {

using namespace std::chrono_literals;
using gyre::nats::message_metadata;
using gyre::nats::detail::parse_ack_subject;

const message_metadata expected{.stream = "S",
                                .consumer = "c",
                                .deliveries = 2,
                                .stream_sequence = 30,
                                .consumer_sequence = 4,
                                .pending = 5,
                                .stored = std::chrono::sys_time<std::chrono::nanoseconds>(1s)};

TEST(NatsMessageMetadata, ReadsBothForms) {
  EXPECT_EQ(parse_ack_subject("$JS.ACK.S.c.2.30.4.1000000000.5"), expected);
  EXPECT_EQ(parse_ack_subject("$JS.ACK._.ACC.S.c.2.30.4.1000000000.5"), expected);
  EXPECT_EQ(parse_ack_subject("$JS.ACK._.ACC.S.c.2.30.4.1000000000.5.token"), expected);
  message_metadata with_domain = expected;
  with_domain.domain = "hub";
  EXPECT_EQ(parse_ack_subject("$JS.ACK.hub.ACC.S.c.2.30.4.1000000000.5"), with_domain);
}

TEST(NatsMessageMetadata, RefusesOtherSubjects) {
  for (const std::string& each :
       {std::string(), std::string("orders.new"), std::string("$JS.ACK."),
        std::string("$JS.ACK.S.c.2.30.4.1000000000"), std::string("$JS.ACK.S.c.x.30.4.1.5"),
        std::string("$JS.ACK.S.c.2.30.4.1.-5"), std::string("$JS.ACK.S.c.2.30.4.1.5."),
        std::string("$JS.ACK.S.c.2.30.4.1.18446744073709551616"),
        std::string("$JS.ACK..c.2.30.4.1.5"), std::string("$JS.ACK.a.b.c.d.e.f.g.h"),
        "$JS.ACK." + std::string(1000, '.')}) {
    EXPECT_FALSE(parse_ack_subject(each)) << each;
  }
}

}  // namespace
}  // namespace message_metadata_test
