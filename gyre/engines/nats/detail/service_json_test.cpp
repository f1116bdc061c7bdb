// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/service_json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

namespace service_json_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::nats;
using namespace gyre::nats::detail;
using testing::HasSubstr;

service_info example() {
  return {.name = "clock",
          .id = "7",
          .version = "1.0.0",
          .description = "tells the \"time\"",
          .metadata = {{"zone", "x"}},
          .endpoints = {{.name = "now",
                         .subject = "clock.now",
                         .queue_group = "q",
                         .metadata = {{"format", "text"}}}}};
}

TEST(NatsServiceJson, ReadsItsOwnInfo) {
  const auto read = read_info_reply(write_info_reply(example()));
  ASSERT_TRUE(read);
  EXPECT_EQ(write_info_reply(*read), write_info_reply(example()));
  EXPECT_EQ(read->endpoints.at(0).subject, "clock.now");
  EXPECT_EQ(read->metadata, example().metadata);
}

TEST(NatsServiceJson, WritesPingAndStats) {
  EXPECT_THAT(write_ping_reply(example()), HasSubstr(R"("type":"io.nats.micro.v1.ping_response")"));
  endpoint_stats stats{.endpoint = example().endpoints[0], .requests = 4, .errors = 1};
  stats.last_error = "500:\xff";
  stats.processing_time = 8us;
  const std::string text = write_stats_reply(example(), {stats}, timestamp(1s));
  EXPECT_THAT(text, HasSubstr(R"("num_requests":4)"));
  EXPECT_THAT(text, HasSubstr(R"("average_processing_time":2000)"));
  EXPECT_THAT(text, HasSubstr(R"("started":"1970-01-01T00:00:01.000000000Z")"));
  const std::string none = write_stats_reply(example(), {endpoint_stats()}, timestamp());
  EXPECT_THAT(none, HasSubstr(R"("average_processing_time":0)"));
}

TEST(NatsServiceJson, LeavesOutRepliesOfAnotherKind) {
  EXPECT_FALSE(read_info_reply(write_ping_reply(example())));
  for (const std::string_view each : {"", "x", "[]", "{}", R"({"type":7})"}) {
    EXPECT_FALSE(read_info_reply(each)) << each;
  }
  const std::string_view odd =
      R"({"type":"io.nats.micro.v1.info_response","name":"a","id":"b","endpoints":[1,{"name":2}],)"
      R"("metadata":{"a":1}})";
  const auto read = read_info_reply(odd);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->endpoints.size(), 1U);
  EXPECT_TRUE(read->metadata.empty());
}

}  // namespace
}  // namespace service_json_test
