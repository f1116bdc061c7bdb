// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/api_json.hpp>

#include <gyre/engines/nats/jetstream_error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace api_json_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::nats;
using namespace gyre::nats::detail;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// A configuration with a value in each field.
stream_config full_config() {
  stream_config config{.name = "ORDERS", .description = "all \"orders\"", .subjects = {"a", "b.>"}};
  config.retention = retention_policy::work_queue;
  config.storage = storage_type::memory;
  config.discard = discard_policy::newest;
  config.compression = stream_compression::s2;
  config.replicas = 3;
  config.max_messages = 10;
  config.max_messages_per_subject = 2;
  config.max_bytes = 1'000'000;
  config.max_message_size = 1000;
  config.max_consumers = 5;
  config.max_age = 1h;
  config.duplicate_window = 1min;
  config.discard_newest_per_subject = true;
  config.allow_direct = true;
  config.allow_rollup = true;
  config.deny_delete = true;
  config.deny_purge = true;
  config.allow_message_ttl = true;
  config.subject_delete_marker_ttl = 2s;
  config.first_sequence = 7;
  config.no_acknowledgement = true;
  config.mirror = stream_source{.name = "OTHER", .start_sequence = 3, .filter_subject = "x"};
  config.sources = {{.name = "S", .start_time = timestamp(1s)}};
  config.placement = stream_placement{.cluster = "c", .tags = {"ssd"}};
  config.republish = stream_republish{.source = "a", .target = "z.a", .headers_only = true};
  config.metadata = {{"owner", "me"}};
  return config;
}

TEST(NatsApiJson, WritesAndReadsAllFieldsOfAStream) {
  const stream_config config = full_config();
  const std::string reply = R"({"config":)" + write_stream(config) + "}";
  const stream_config read = read_stream(reply, "test").config;
  EXPECT_EQ(write_stream(read), write_stream(config));
  EXPECT_EQ(read.subjects, config.subjects);
  EXPECT_EQ(read.description, config.description);
  EXPECT_EQ(read.max_age, config.max_age);
  EXPECT_EQ(read.max_message_size, config.max_message_size);
  EXPECT_EQ(read.mirror, config.mirror);
  EXPECT_EQ(read.sources, config.sources);
  EXPECT_EQ(read.placement, config.placement);
  EXPECT_EQ(read.republish, config.republish);
  EXPECT_EQ(read.metadata, config.metadata);
  EXPECT_EQ(read.retention, config.retention);
}

TEST(NatsApiJson, ReadsNoLimitsAsNone) {
  const stream_config read =
      read_stream(R"({"config":)" + write_stream({.name = "S"}) + "}", "test").config;
  EXPECT_EQ(read.max_messages, std::nullopt);
  EXPECT_EQ(read.max_bytes, std::nullopt);
  EXPECT_EQ(read.max_message_size, std::nullopt);
  EXPECT_EQ(read.mirror, std::nullopt);
}

TEST(NatsApiJson, WritesAndReadsAllFieldsOfAConsumer) {
  consumer_config config{.name = "c", .description = "d", .is_durable = true};
  config.inactive_threshold = 5s;
  config.deliver = deliver_policy::from_sequence;
  config.start_sequence = std::numeric_limits<std::uint64_t>::max();
  config.filter_subjects = {"a", "b"};
  config.replay = replay_policy::original;
  config.headers_only = true;
  config.ack = ack_policy::all;
  config.ack_wait = 2s;
  config.backoff = {1s, 2s};
  config.max_deliveries = 9;
  config.max_ack_pending = 8;
  config.max_waiting = 7;
  config.max_request_messages = 6;
  config.max_request_bytes = 5;
  config.max_request_expires = 4s;
  config.replicas = 1;
  config.memory_storage = true;
  config.metadata = {{"a", "b"}};
  const std::string request = write_consumer("S", config, consumer_action::create);
  EXPECT_THAT(request, HasSubstr(R"("action":"create")"));
  const std::size_t begin = request.find(R"("config":)");
  const std::size_t end = request.rfind(R"(,"stream_name")");
  const std::string reply =
      R"({"stream_name":"S","name":"c",)" + request.substr(begin, end - begin) + "}";
  const consumer_info read = read_consumer(reply, "test");
  EXPECT_EQ(write_consumer("S", read.config, consumer_action::create), request);
  EXPECT_EQ(read.config.backoff, config.backoff);
  EXPECT_EQ(read.config.start_sequence, config.start_sequence);
  EXPECT_EQ(read.config.filter_subjects, config.filter_subjects);
}

TEST(NatsApiJson, RefusesTextsThatAreNoUtf8) {
  EXPECT_THROW(write_stream({.name = "\xff"}), std::invalid_argument);
  EXPECT_THROW(write_last_of_subject("\xc3"), std::invalid_argument);
}

TEST(NatsApiJson, ReadsAcknowledgements) {
  const publish_ack ack =
      read_publish_ack(R"({"stream":"S","seq":18446744073709551615,"duplicate":true})", "test");
  EXPECT_EQ(ack.stream, "S");
  EXPECT_EQ(ack.sequence, std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(ack.is_duplicate);
}

TEST(NatsApiJson, ThrowsErrorsOfTheServer) {
  const char* const reply =
      R"({"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"}})";
  try {
    static_cast<void>(read_publish_ack(reply, "publish to a"));
    FAIL() << "no exception";
  } catch (const server_error& error) {
    EXPECT_EQ(error.code(), jetstream_errc::wrong_last_sequence);
    EXPECT_EQ(error.status(), 400);
    EXPECT_EQ(error.text(), "wrong last sequence: 5");
    EXPECT_THAT(error.what(), HasSubstr("publish to a: wrong last sequence: 5 (10071)"));
  }
}

TEST(NatsApiJson, KeepsNumbersOfErrorsThatItDoesNotKnow) {
  try {
    read_confirmation(R"({"error":{"code":500,"err_code":19999}})", "test");
    FAIL() << "no exception";
  } catch (const server_error& error) {
    EXPECT_EQ(error.code().value(), 19999);
    EXPECT_EQ(error.code().message(), "the server replied an error");
  }
}

TEST(NatsApiJson, ReadsMessagesWithBytes) {
  const raw_message read =
      read_message(R"({"message":{"subject":"a","seq":3,"hdrs":"TkFUUy8xLjANCg0K","data":"AP8=",)"
                   R"("time":"2026-01-02T03:04:05.000000006Z"}})",
                   "test");
  EXPECT_EQ(read.headers, "NATS/1.0\r\n\r\n");
  EXPECT_EQ(read.payload, std::string("\0\xff", 2));
  EXPECT_EQ(format_timestamp(read.time), "2026-01-02T03:04:05.000000006Z");
}

TEST(NatsApiJson, CountsNoBracketsWithinTexts) {
  const std::string brackets(100, '[');
  const std::string reply = R"({"config":{"name":"\"\\)" + brackets + R"("}})";
  EXPECT_EQ(read_stream(reply, "test").config.name, "\"\\" + brackets);
}

TEST(NatsApiJson, ReadsNames) {
  const name_page page = read_names(R"({"total":7,"offset":0,"streams":["a","b"]})", "test");
  EXPECT_EQ(page.total, 7U);
  EXPECT_THAT(page.names, ElementsAre("a", "b"));
}

// Replies that are none, or whose members have other types, or nesting that would need much memory.
TEST(NatsApiJson, RefusesOtherReplies) {
  const std::string deep(1'000'000, '[');
  for (const std::string& reply :
       {std::string(), std::string("x"), std::string("[]"), std::string("{"), deep,
        R"({"config":{},"x":)" + std::string(32, '[') + std::string(32, ']') + "}",
        R"({"config":{},"x":)" + deep + std::string(1'000'000, ']') + "}",
        std::string(R"({"config":[]})"), std::string(R"({"config":{"name":7}})"),
        std::string(R"({"config":{"max_age":-1.5}})"),
        std::string(R"({"config":{"max_age":18446744073709551615}})"),
        std::string(R"({"config":{"num_replicas":4294967296}})"),
        std::string(R"({"config":{"subjects":{}}})"), std::string(R"({"config":{"subjects":[1]}})"),
        std::string(R"({"config":{"sources":[1]}})"), std::string(R"({"config":{"metadata":[]}})"),
        std::string(R"({"error":"no"})"), std::string(R"({"error":{"code":1e300}})")}) {
    try {
      static_cast<void>(read_stream(reply, "test"));
      ADD_FAILURE() << reply.substr(0, 40);
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), jetstream_errc::bad_reply) << reply.substr(0, 40);
    }
  }
  EXPECT_THROW(read_publish_ack("{}", "test"), std::system_error);
  EXPECT_THROW(read_consumer("{}", "test"), std::system_error);
  EXPECT_THROW(read_confirmation(R"({"success":false})", "test"), std::system_error);
  EXPECT_THROW(read_message(R"({"message":{"subject":"a","seq":1,"data":"A"}})", "test"),
               std::system_error);
}

}  // namespace
}  // namespace api_json_test
