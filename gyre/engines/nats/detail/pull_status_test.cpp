// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/pull_status.hpp>

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

namespace pull_status_test {
namespace {

using gyre::nats::detail::classify_pull_status;
using gyre::nats::detail::pull_status;

TEST(NatsPullStatus, DistinguishesReasonsThatPassFromThoseForGood) {
  EXPECT_EQ(classify_pull_status(0, ""), pull_status::message);
  EXPECT_EQ(classify_pull_status(100, "Idle Heartbeat"), pull_status::heartbeat);
  EXPECT_EQ(classify_pull_status(404, "No Messages"), pull_status::no_messages);
  EXPECT_EQ(classify_pull_status(408, "Request Timeout"), pull_status::ended);
  EXPECT_EQ(classify_pull_status(408, "Requests Pending"), pull_status::busy);
  EXPECT_EQ(classify_pull_status(503, ""), pull_status::no_responders);
  EXPECT_EQ(classify_pull_status(400, "Bad Request"), pull_status::refused);
  EXPECT_EQ(classify_pull_status(777, ""), pull_status::refused);
  for (const auto& [description, expected] :
       {std::pair("Consumer Deleted", pull_status::consumer_deleted),
        std::pair("consumer deleted", pull_status::consumer_deleted),
        std::pair("Message Size Exceeds MaxBytes", pull_status::ended_by_size),
        std::pair("Batch Completed", pull_status::ended),
        std::pair("Exceeded MaxWaiting", pull_status::busy),
        std::pair("Exceeded MaxRequestBatch of 5", pull_status::refused),
        std::pair("Consumer is push based", pull_status::refused),
        std::pair("Leadership Change", pull_status::busy),
        std::pair("Server Shutdown", pull_status::busy), std::pair("", pull_status::busy)}) {
    EXPECT_EQ(classify_pull_status(409, description), expected) << description;
  }
}

}  // namespace
}  // namespace pull_status_test
