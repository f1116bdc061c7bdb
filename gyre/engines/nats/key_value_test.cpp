// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/key_value.hpp>

#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/nats_server.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace key_value_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::nats::client;
using gyre::nats::jetstream;
using gyre::nats::jetstream_errc;
using gyre::nats::key_value;
using gyre::nats::key_value_config;
using gyre::nats::key_value_entry;
using gyre::nats::key_value_operation;
using gyre::nats::key_value_watch;
using gyre::test::nats_server;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using nats_test::moved_from;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A loop, and a server with JetStream.
struct KeyValue : testing::Test {
  gyre::loop loop;
  gyre::test::temporary_folder store;
  nats_server server{loop, "jetstream { store_dir: \"" + store.path() + "\" }\n"};
  client bus{loop, server.address(), {.initial_delay = 10ms, .longest_delay = 100ms}};
  jetstream streams{bus};

  void run(task<> test) { gyre::sync_wait(loop, gyre::with_timeout(std::move(test), 200s)); }
  // With GCC 12, configurations are made outside of awaited expressions.
  task<key_value> make(key_value_config config) {
    co_return co_await key_value::create(streams, config);
  }
  task<key_value> make() { return make(key_value_config{.bucket = "settings", .history = 5}); }
};

std::string text_of(const std::optional<key_value_entry>& entry) {
  if (!entry) return "nothing";
  if (entry->operation == key_value_operation::remove) return entry->key + " removed";
  if (entry->operation == key_value_operation::purge) return entry->key + " purged";
  return entry->key + "=" + entry->value;
}

std::vector<std::string> texts_of(const std::vector<key_value_entry>& entries) {
  std::vector<std::string> texts;
  for (const key_value_entry& each : entries) texts.push_back(text_of(each));
  return texts;
}

task<std::string> next_of(key_value_watch& watch) {
  const auto entry = co_await watch.next();
  co_return text_of(entry);
}

TEST_F(KeyValue, StoresValues) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    EXPECT_EQ(settings.bucket(), "settings");
    EXPECT_FALSE(co_await settings.get("a.b"));
    const std::string bytes("\0\xff\r\n", 4);
    EXPECT_EQ(co_await settings.put("a.b", bytes), 1U);
    EXPECT_EQ(co_await settings.put("a.b", "2"), 2U);
    const auto entry = co_await settings.get("a.b");
    EXPECT_EQ(entry->key, "a.b");
    EXPECT_EQ(entry->value, "2");
    EXPECT_EQ(entry->revision, 2U);
    EXPECT_GT(entry->created.time_since_epoch(), 1'700'000'000s);
    const auto first = co_await settings.get("a.b", 1);
    EXPECT_EQ(first->value, bytes);
    EXPECT_FALSE(co_await settings.get("a.b", 3));
    EXPECT_FALSE(co_await settings.get("other", 1));
    co_await settings.put("empty", "");
    const auto empty = co_await settings.get("empty");
    EXPECT_EQ(empty->value, "");
  }(*this));
}

TEST_F(KeyValue, CreatesAndUpdatesByRevision) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    EXPECT_EQ(co_await settings.create("a", "1"), 1U);
    EXPECT_EQ(co_await error_of(settings.create("a", "2")), jetstream_errc::key_exists);
    EXPECT_EQ(co_await settings.update("a", "2", 1), 2U);
    EXPECT_EQ(co_await error_of(settings.update("a", "3", 1)), jetstream_errc::wrong_last_sequence);
    EXPECT_EQ(co_await error_of(settings.update("b", "3", 1)), jetstream_errc::wrong_last_sequence);
    EXPECT_EQ(co_await settings.update("b", "3", 0), 3U);
    EXPECT_EQ(co_await error_of(settings.remove("a", 1)), jetstream_errc::wrong_last_sequence);
    co_await settings.remove("a", 2);
    EXPECT_FALSE(co_await settings.get("a"));
    EXPECT_EQ(co_await settings.create("a", "again"), 5U);
    co_await settings.purge("a", 5);
    EXPECT_EQ(co_await settings.create("a", "again"), 7U);
  }(*this));
}

TEST_F(KeyValue, LetsOneOfSeveralCreate) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    auto all =
        gyre::when_all(error_of(settings.create("a", "1")), error_of(settings.create("a", "2")),
                       error_of(settings.create("a", "3")));
    const auto [first, second, third] = co_await std::move(all);
    EXPECT_EQ(!first + !second + !third, 1);
  }(*this));
}

TEST_F(KeyValue, KeepsTheHistory) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    for (const char* value : {"1", "2", "3"}) co_await settings.put("a", value);
    co_await settings.put("b", "x");
    co_await settings.remove("a");
    co_await settings.put("a", "4");
    EXPECT_THAT(texts_of(co_await settings.history("a")),
                ElementsAre("a=1", "a=2", "a=3", "a removed", "a=4"));
    co_await settings.put("a", "5");
    EXPECT_THAT(texts_of(co_await settings.history("a")),
                ElementsAre("a=2", "a=3", "a removed", "a=4", "a=5"));
    co_await settings.purge("a");
    EXPECT_THAT(texts_of(co_await settings.history("a")), ElementsAre("a purged"));
    EXPECT_THAT(co_await settings.history("none"), IsEmpty());
  }(*this));
}

TEST_F(KeyValue, ListsKeys) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    EXPECT_THAT(co_await settings.keys(), IsEmpty());
    for (const char* key : {"b.x", "a.y", "a.z", "gone"}) co_await settings.put(key, "1");
    co_await settings.put("a.y", "2");
    co_await settings.remove("gone");
    EXPECT_THAT(co_await settings.keys(), ElementsAre("a.y", "a.z", "b.x"));
    EXPECT_THAT(co_await settings.keys("a.*"), ElementsAre("a.y", "a.z"));
    EXPECT_THAT(co_await settings.keys("none"), IsEmpty());
    std::vector<std::string> expected;
    for (int each = 1000; each < 1700; ++each) {  // more than one request brings
      expected.push_back("many." + std::to_string(each));
      co_await settings.put(expected.back(), "1");
    }
    EXPECT_EQ(co_await settings.keys("many.>"), expected);
  }(*this));
}

TEST_F(KeyValue, WatchesChangesFromThePresentValuesOn) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    co_await settings.put("a", "1");
    co_await settings.put("a", "2");
    co_await settings.put("b", "3");
    key_value_watch watch = co_await settings.watch();
    EXPECT_EQ(text_of(co_await watch.next_initial()), "a=2");
    EXPECT_EQ(text_of(co_await watch.next_initial()), "b=3");
    EXPECT_FALSE(co_await watch.next_initial());
    EXPECT_FALSE(co_await watch.next_initial());
    co_await settings.put("a", "4");
    EXPECT_EQ(co_await next_of(watch), "a=4");
    co_await settings.remove("b");
    EXPECT_EQ(co_await next_of(watch), "b removed");
    co_await settings.purge("a");
    EXPECT_EQ(co_await next_of(watch), "a purged");
    auto both = gyre::when_all(next_of(watch), settings.put("c", "5"));
    const auto [text, revision] = co_await std::move(both);
    EXPECT_EQ(text, "c=5");
  }(*this));
}

TEST_F(KeyValue, WatchesAsItsOptionsSay) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    co_await settings.put("a", "1");
    co_await settings.put("a", "2");
    co_await settings.remove("b");
    key_value_watch history = co_await settings.watch(">", {.has_history = true});
    EXPECT_EQ(co_await next_of(history), "a=1");
    EXPECT_EQ(co_await next_of(history), "a=2");
    EXPECT_EQ(co_await next_of(history), "b removed");
    key_value_watch updates = co_await settings.watch(">", {.updates_only = true});
    key_value_watch puts = co_await settings.watch(">", {.skips_deletes = true});
    key_value_watch names = co_await settings.watch("a", {.has_values = false});
    EXPECT_FALSE(co_await updates.next_initial());
    EXPECT_EQ(text_of(co_await puts.next_initial()), "a=2");
    EXPECT_FALSE(co_await puts.next_initial());
    EXPECT_EQ(text_of(co_await names.next_initial()), "a=");
    co_await settings.put("c", "3");
    EXPECT_EQ(co_await next_of(updates), "c=3");
    EXPECT_EQ(co_await next_of(puts), "c=3");
    EXPECT_EQ(co_await error_of(gyre::with_timeout(names.next(), 1ms)), std::errc::timed_out);
    EXPECT_THROW(
        static_cast<void>(settings.watch(">", {.has_history = true, .updates_only = true})),
        std::invalid_argument);
  }(*this));
}

TEST_F(KeyValue, AWatchLastsOverARestartOfTheServer) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    key_value_watch updates = co_await settings.watch(">", {.updates_only = true});
    key_value_watch watch = co_await settings.watch();
    for (int each = 1; each <= 3; ++each) {
      const std::string value = std::to_string(each);
      co_await test.server.kill();  // forgets the consumers of the watches
      co_await test.server.start_again();
      co_await settings.put("a", value);
      EXPECT_EQ(co_await next_of(watch), "a=" + value);
      EXPECT_EQ(co_await next_of(updates), "a=" + value);
    }
  }(*this));
}

TEST_F(KeyValue, AWatchContinuesWhenItsConsumerIsDeleted) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    co_await settings.put("a", "1");
    key_value_watch watch = co_await settings.watch();
    EXPECT_EQ(co_await next_of(watch), "a=1");
    for (const std::string& each : co_await test.streams.consumer_names("KV_settings")) {
      co_await test.streams.delete_consumer("KV_settings", each);
    }
    co_await settings.put("a", "2");
    EXPECT_EQ(co_await next_of(watch), "a=2");
    co_await key_value::delete_bucket(test.streams, "settings");
    EXPECT_EQ(co_await error_of(watch.next()), jetstream_errc::stream_not_found);
  }(*this));
}

TEST_F(KeyValue, AWatchDeletesItsConsumer) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    {
      const key_value_watch watch = co_await settings.watch();
      EXPECT_THAT(co_await test.streams.consumer_names("KV_settings"), testing::SizeIs(1));
    }
    for (;;) {  // the server does it a little later
      const auto names = co_await test.streams.consumer_names("KV_settings");
      if (names.empty()) break;
    }
  }(*this));
}

TEST_F(KeyValue, AWatchEndsWithItsClient) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    key_value_watch watch = co_await settings.watch();
    auto closing = [](client& target) -> task<> {
      target.close();
      co_return;
    };
    auto both = gyre::when_all(next_of(watch), closing(test.bus));
    const auto [text, closed] = co_await std::move(both);
    EXPECT_EQ(text, "nothing");
  }(*this));
}

TEST_F(KeyValue, RefusesCallsOfObjectsThatWereMovedFrom) {
  run([](KeyValue& test) -> task<> {
    const key_value made = co_await test.make();
    key_value_watch watch = moved_from(co_await made.watch());
    EXPECT_THAT(co_await message_of(watch.next()), HasSubstr("moved from"));
    EXPECT_THAT(co_await message_of(watch.next_initial()), HasSubstr("moved from"));
    const key_value settings = moved_from(made);
    EXPECT_THROW(static_cast<void>(settings.bucket()), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.get("a")), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.get("a", 1)), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.put("a", "1")), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.create("a", "1")), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.update("a", "1", 1)), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.remove("a")), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.purge("a")), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.keys()), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.history("a")), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.watch()), std::logic_error);
    EXPECT_THROW(static_cast<void>(settings.status()), std::logic_error);
    const jetstream empty = moved_from(test.streams);
    EXPECT_THROW(static_cast<void>(key_value::open(empty, "settings")), std::logic_error);
    EXPECT_THROW(static_cast<void>(key_value::bucket_names(empty)), std::logic_error);
  }(*this));
}

TEST_F(KeyValue, ManagesBuckets) {
  run([](KeyValue& test) -> task<> {
    key_value_config config{.bucket = "settings", .description = "all", .history = 3};
    config.time_to_live = 1h;
    config.max_value_size = 1000;
    config.max_bytes = 1'000'000;
    config.metadata = {{"owner", "me"}};
    const key_value made = co_await test.make(config);
    co_await made.put("a", "1");
    const key_value opened = co_await key_value::open(test.streams, "settings");
    const gyre::nats::key_value_status status = co_await opened.status();
    EXPECT_EQ(status.config.history, 3U);
    EXPECT_EQ(status.config.description, "all");
    EXPECT_EQ(status.config.time_to_live, config.time_to_live);
    EXPECT_EQ(status.config.max_value_size, 1000U);
    EXPECT_EQ(status.config.max_bytes, 1'000'000U);
    EXPECT_EQ(status.values, 1U);
    EXPECT_GT(status.bytes, 0U);
    EXPECT_EQ(co_await error_of(made.put("a", std::string(2000, 'x'))),
              jetstream_errc::message_exceeds_maximum);
    config.history = 4;
    EXPECT_EQ(co_await error_of(test.make(config)), jetstream_errc::stream_name_in_use);
    EXPECT_THAT(co_await key_value::bucket_names(test.streams), ElementsAre("settings"));
    EXPECT_EQ(co_await error_of(key_value::open(test.streams, "none")),
              jetstream_errc::stream_not_found);
    co_await key_value::delete_bucket(test.streams, "settings");
    EXPECT_THAT(co_await key_value::bucket_names(test.streams), IsEmpty());
  }(*this));
}

TEST_F(KeyValue, ReadsFromTheLeader) {
  run([](KeyValue& test) -> task<> {
    static_cast<void>(co_await test.make());
    const key_value settings =
        co_await key_value::open(test.streams, "settings", {.reads_from_leader = true});
    EXPECT_FALSE(co_await settings.get("a"));
    const std::string bytes("\0\xff", 2);
    co_await settings.put("a", bytes);
    const auto entry = co_await settings.get("a");
    EXPECT_EQ(entry->value, bytes);
    EXPECT_EQ(entry->revision, 1U);
    co_await settings.remove("a");
    EXPECT_FALSE(co_await settings.get("a"));
  }(*this));
}

TEST_F(KeyValue, LetsSingleKeysExpire) {
  run([](KeyValue& test) -> task<> {
    key_value_config config{.bucket = "sessions"};
    config.marker_time = 1min;
    const key_value sessions = co_await test.make(config);
    key_value_watch watch = co_await sessions.watch();
    co_await sessions.create("a", "1", 1s);
    EXPECT_EQ(co_await next_of(watch), "a=1");
    EXPECT_EQ(co_await next_of(watch), "a purged");
    EXPECT_FALSE(co_await sessions.get("a"));
    EXPECT_EQ(co_await sessions.create("a", "2"), 3U);
    const key_value settings = co_await test.make();
    EXPECT_EQ(co_await error_of(settings.create("a", "1", 1s)),
              jetstream_errc::time_to_live_disabled);
  }(*this));
}

TEST_F(KeyValue, RefusesKeysThatAreNone) {
  run([](KeyValue& test) -> task<> {
    const key_value settings = co_await test.make();
    for (const char* key : {"", ".", "a.", ".a", "a..b", "a b", "*", ">", "a.>", "a\r\nb", "ä"}) {
      EXPECT_THROW(static_cast<void>(settings.get(key)), std::invalid_argument) << key;
      EXPECT_THROW(static_cast<void>(settings.put(key, "")), std::invalid_argument) << key;
    }
    for (const char* pattern : {"", ".", "a.", "a.>.b", ">a", "a*"}) {
      EXPECT_THROW(static_cast<void>(settings.watch(pattern)), std::invalid_argument) << pattern;
    }
    co_await settings.put("a/b=c-d_e.F9", "1");
    for (const char* bucket : {"", "a.b", "a b", "*"}) {
      EXPECT_THROW(static_cast<void>(key_value::open(test.streams, bucket)), std::invalid_argument);
    }
    const key_value_config config{.bucket = "x", .history = 65};
    EXPECT_THROW(static_cast<void>(key_value::create(test.streams, config)), std::invalid_argument);
  }(*this));
}

}  // namespace
}  // namespace key_value_test
