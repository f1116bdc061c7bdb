// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/jetstream.hpp>

#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/engines/nats/jetstream_error.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/nats_server.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace jetstream_test {
namespace {

using namespace std::chrono_literals;
using gyre::join_handle;
using gyre::task;
using gyre::nats::client;
using gyre::nats::consumer;
using gyre::nats::consumer_config;
using gyre::nats::consumer_messages;
using gyre::nats::errc;
using gyre::nats::fetch_options;
using gyre::nats::header_view;
using gyre::nats::headers;
using gyre::nats::jetstream;
using gyre::nats::jetstream_errc;
using gyre::nats::jetstream_message;
using gyre::nats::jetstream_options;
using gyre::nats::messages_options;
using gyre::nats::publish_ack;
using gyre::nats::stream_config;
using gyre::nats::stream_info;
using gyre::test::nats_server;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using nats_test::moved_from;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A loop, and a server with JetStream.
struct JetStream : testing::Test {
  gyre::loop loop;
  gyre::test::temporary_folder store;
  nats_server server{loop, "jetstream { store_dir: \"" + store.path() + "\" }\n"};
  client bus{loop, server.address(), {.initial_delay = 10ms, .longest_delay = 100ms}};
  jetstream streams{bus};

  void run(task<> test) { gyre::sync_wait(loop, gyre::with_timeout(std::move(test), 200s)); }

  // With GCC 12, configurations are made outside of awaited expressions.
  task<> create_stream(stream_config config) {
    static_cast<void>(co_await streams.create_stream(config));
  }
  task<> create_stream() {
    return create_stream(stream_config{.name = "ORDERS", .subjects = {"orders.>"}});
  }
  task<consumer> create_consumer(consumer_config config) {
    co_return co_await streams.create_consumer("ORDERS", config);
  }
  task<consumer> create_consumer() { return create_consumer(consumer_config{.name = "c"}); }
  // The state of the only consumer as the server has stored it; it follows deliveries.
  std::string stored_consumer() const {
    for (const auto& each : std::filesystem::recursive_directory_iterator(store.path())) {
      if (each.path().filename() != "o.dat") continue;
      std::ifstream file(each.path(), std::ios::binary);
      return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }
    return {};
  }
  task<> publish(int first, int last) {
    for (int each = first; each <= last; ++each) {
      static_cast<void>(co_await streams.publish("orders.new", std::to_string(each)));
    }
  }
};

std::vector<std::string> texts_of(const std::vector<jetstream_message>& messages) {
  std::vector<std::string> texts;
  for (const jetstream_message& each : messages) texts.emplace_back(each.text());
  return texts;
}

task<std::string> text_of(consumer_messages& messages) {
  const auto next = co_await messages.next();
  co_return next ? std::string(next->text()) : "end";
}

// --- Publishing ---

TEST_F(JetStream, AcknowledgesWhatItHasStored) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const publish_ack first = co_await test.streams.publish("orders.new", "one");
    const publish_ack second = co_await test.streams.publish("orders.new", "two");
    EXPECT_EQ(first.stream, "ORDERS");
    EXPECT_EQ(first.sequence, 1U);
    EXPECT_FALSE(first.is_duplicate);
    EXPECT_EQ(second.sequence, 2U);
    const stream_info info = co_await test.streams.stream("ORDERS");
    EXPECT_EQ(info.state.messages, 2U);
    EXPECT_EQ(info.state.last_sequence, 2U);
    EXPECT_TRUE(info.state.last_time);
    EXPECT_TRUE(info.created);
  }(*this));
}

TEST_F(JetStream, StoresAMessageWithAnIdOnce) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const publish_ack first =
        co_await test.streams.publish("orders.new", "a", {.message_id = "order-17"});
    const publish_ack again =
        co_await test.streams.publish("orders.new", "a", {.message_id = "order-17"});
    EXPECT_FALSE(first.is_duplicate);
    EXPECT_TRUE(again.is_duplicate);
    EXPECT_EQ(again.sequence, first.sequence);
    const stream_info info = co_await test.streams.stream("ORDERS");
    EXPECT_EQ(info.state.messages, 1U);
  }(*this));
}

TEST_F(JetStream, RefusesMessagesWhoseExpectationsAreNotMet) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const jetstream& js = test.streams;
    co_await js.publish("orders.new", "a", {.message_id = "first"});
    EXPECT_EQ(co_await error_of(js.publish("orders.new", "b", {.expected_stream = "OTHER"})),
              jetstream_errc::unexpected_stream);
    EXPECT_EQ(co_await error_of(js.publish("orders.new", "b", {.expected_last_sequence = 5})),
              jetstream_errc::wrong_last_sequence);
    EXPECT_EQ(
        co_await error_of(js.publish("orders.old", "b", {.expected_last_subject_sequence = 1})),
        jetstream_errc::wrong_last_sequence);
    EXPECT_EQ(
        co_await error_of(js.publish("orders.new", "b", {.expected_last_message_id = "other"})),
        jetstream_errc::wrong_last_message_id);
    const publish_ack met = co_await js.publish("orders.new", "b",
                                                {.expected_stream = "ORDERS",
                                                 .expected_last_sequence = 1,
                                                 .expected_last_subject_sequence = 1,
                                                 .expected_last_message_id = "first"});
    EXPECT_EQ(met.sequence, 2U);
  }(*this));
}

TEST_F(JetStream, TellsWhenNoStreamStoresTheSubject) {
  run([](JetStream& test) -> task<> {
    const jetstream js(test.bus, {.no_stream_timeout = 0s});
    EXPECT_EQ(co_await error_of(js.publish("nobody", "a")), jetstream_errc::no_stream);
    EXPECT_THAT(co_await message_of(js.publish("nobody", "a")), HasSubstr("nobody"));
  }(*this));
}

TEST_F(JetStream, WaitsForAStreamThatIsMissing) {
  run([](JetStream& test) -> task<> {
    auto both = gyre::when_all(test.streams.publish("orders.new", "a"), test.create_stream());
    const auto [ack, created] = co_await std::move(both);
    EXPECT_EQ(ack.sequence, 1U);
  }(*this));
}

TEST_F(JetStream, SendsAMessageWithAnIdAgainUntilItIsAcknowledged) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const jetstream js(test.bus, {.timeout = 100s, .attempt_timeout = 50ms});
    co_await test.bus.flush();
    test.server.pause();
    auto restart = [](JetStream& fixture) -> task<> {
      co_await fixture.server.kill();
      co_await fixture.server.start_again();
    };
    auto both =
        gyre::when_all(js.publish("orders.new", "a", {.message_id = "order-17"}), restart(test));
    const auto [ack, restarted] = co_await std::move(both);
    EXPECT_EQ(ack.stream, "ORDERS");
    const stream_info info = co_await test.streams.stream("ORDERS");
    EXPECT_EQ(info.state.messages, 1U);
  }(*this));
}

TEST_F(JetStream, FailsWhenTheAcknowledgementOfAMessageWithoutAnIdIsLost) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    test.server.pause();
    auto both =
        gyre::when_all(error_of(test.streams.publish("orders.new", "a")), test.server.kill());
    const auto [error, killed] = co_await std::move(both);
    EXPECT_EQ(error, errc::connection_lost);
    co_await test.server.start_again();
  }(*this));
}

TEST_F(JetStream, BoundsMessagesThatAreNotAcknowledged) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const jetstream js(test.bus, {.max_unacknowledged = 2});
    test.server.pause();
    join_handle<publish_ack> first = co_await js.publish_async("orders.new", "1");
    join_handle<publish_ack> second = co_await js.publish_async("orders.new", "2");
    const std::error_code third =
        co_await error_of(gyre::with_timeout(js.publish_async("orders.new", "3"), 20ms));
    EXPECT_EQ(third, std::errc::timed_out);
    EXPECT_EQ(js.unacknowledged(), 2U);
    test.server.resume();
    const publish_ack first_ack = co_await first.join();
    EXPECT_EQ(first_ack.sequence, 1U);
    const publish_ack second_ack = co_await second.join();
    EXPECT_EQ(second_ack.sequence, 2U);
    EXPECT_EQ(js.unacknowledged(), 0U);
  }(*this));
}

TEST_F(JetStream, StoresMessagesInTheOrderOfTheCalls) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    std::vector<join_handle<publish_ack>> handles;
    for (int each = 0; each < 1000; ++each) {
      const std::string text = std::to_string(each);
      handles.push_back(co_await test.streams.publish_async("orders.new", text));
    }
    for (std::uint64_t each = 0; each < 1000; ++each) {
      const publish_ack ack = co_await handles[each].join();
      EXPECT_EQ(ack.sequence, each + 1);
    }
    const auto last = co_await test.streams.last_message("ORDERS", "orders.new");
    EXPECT_EQ(last->text, "999");
  }(*this));
}

TEST_F(JetStream, RefusesMessagesThatAFullStreamDoesNotTake) {
  run([](JetStream& test) -> task<> {
    stream_config config{.name = "ORDERS", .subjects = {"orders.>"}};
    config.max_messages = 1;
    config.discard = gyre::nats::discard_policy::newest;
    config.max_message_size = 100;
    co_await test.create_stream(config);
    co_await test.publish(1, 1);
    EXPECT_EQ(co_await error_of(test.streams.publish("orders.new", "2")),
              jetstream_errc::store_failed);
    EXPECT_EQ(co_await error_of(test.streams.publish("orders.new", std::string(200, 'x'))),
              jetstream_errc::message_exceeds_maximum);
  }(*this));
}

// --- Streams ---

TEST_F(JetStream, ManagesStreams) {
  run([](JetStream& test) -> task<> {
    const jetstream& js = test.streams;
    stream_config config{.name = "ORDERS", .description = "all", .subjects = {"orders.>"}};
    config.max_age = 1h;
    config.metadata = {{"owner", "me"}};
    const stream_info created = co_await js.create_stream(config);
    EXPECT_EQ(created.config.subjects, config.subjects);
    EXPECT_EQ(created.config.max_age, config.max_age);
    EXPECT_EQ(created.config.metadata.at("owner"), "me");
    co_await js.create_stream(config);

    stream_config other = config;
    other.max_messages = 7;
    EXPECT_EQ(co_await error_of(js.create_stream(other)), jetstream_errc::stream_name_in_use);
    const stream_info updated = co_await js.update_stream(other);
    EXPECT_EQ(updated.config.max_messages, 7U);

    const stream_config overlapping{.name = "X", .subjects = {"orders.new"}};
    EXPECT_EQ(co_await error_of(js.create_stream(overlapping)), jetstream_errc::subjects_overlap);
    const stream_config second{.name = "BILLS", .subjects = {"bills"}};
    co_await js.create_stream(second);
    EXPECT_THAT(co_await js.stream_names(), testing::UnorderedElementsAre("ORDERS", "BILLS"));
    EXPECT_THAT(co_await js.stream_names("bills"), ElementsAre("BILLS"));
    co_await js.delete_stream("BILLS");
    EXPECT_EQ(co_await error_of(js.stream("BILLS")), jetstream_errc::stream_not_found);
    EXPECT_EQ(co_await error_of(js.delete_stream("BILLS")), jetstream_errc::stream_not_found);

    const gyre::nats::account_info account = co_await js.account();
    EXPECT_EQ(account.streams, 1U);
  }(*this));
}

TEST_F(JetStream, ListsMoreStreamsThanOneReplyHas) {
  run([](JetStream& test) -> task<> {
    std::set<std::string> expected;
    for (int each = 0; each < 1030; ++each) {
      stream_config config{.name = "S" + std::to_string(each),
                           .storage = gyre::nats::storage_type::memory};
      config.subjects = {"s." + std::to_string(each)};
      co_await test.create_stream(config);
      expected.insert(config.name);
    }
    const auto names = co_await test.streams.stream_names();
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), expected);
    EXPECT_THAT(names, SizeIs(1030));
  }(*this));
}

TEST_F(JetStream, PurgesStreams) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const jetstream& js = test.streams;
    co_await test.publish(1, 5);
    co_await js.publish("orders.old", "6");
    EXPECT_EQ(co_await js.purge_stream("ORDERS", {.sequence = 3}), 2U);
    EXPECT_EQ(co_await js.purge_stream("ORDERS", {.subject = "orders.new", .keep = 1}), 2U);
    EXPECT_EQ(co_await js.purge_stream("ORDERS"), 2U);
    EXPECT_THROW(static_cast<void>(js.purge_stream("ORDERS", {.sequence = 1, .keep = 1})),
                 std::invalid_argument);
  }(*this));
}

TEST_F(JetStream, ReadsAndDeletesSingleMessages) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const jetstream& js = test.streams;
    const headers extra{{"Trace", "7f"}, {"Trace", "80"}};
    const std::string bytes("\0\xff\r\n", 4);
    co_await js.publish("orders.new", bytes, {.headers = extra});
    co_await js.publish("orders.old", "2");
    const auto first = co_await js.message("ORDERS", 1);
    EXPECT_EQ(first->text, bytes);
    EXPECT_EQ(first->subject, "orders.new");
    EXPECT_EQ(first->headers.find("Trace"), "7f");
    EXPECT_GT(first->stored.time_since_epoch(), 1'700'000'000s);
    const auto last = co_await js.last_message("ORDERS", "orders.*");
    EXPECT_EQ(last->sequence, 2U);
    EXPECT_FALSE(co_await js.message("ORDERS", 3));
    EXPECT_FALSE(co_await js.last_message("ORDERS", "orders.none"));
    co_await js.delete_message("ORDERS", 1);
    EXPECT_FALSE(co_await js.message("ORDERS", 1));
    EXPECT_NE(co_await error_of(js.delete_message("ORDERS", 1)), std::error_code());
    EXPECT_EQ(co_await error_of(js.message("NONE", 1)), jetstream_errc::stream_not_found);
  }(*this));
}

TEST_F(JetStream, RefusesNamesAndOptionsThatMakeNoSense) {
  for (const char* name : {"", "a.b", "a b", "*", ">", "a/b", "a\\b", "a\n"}) {
    EXPECT_THROW(static_cast<void>(streams.stream(name)), std::invalid_argument) << name;
    EXPECT_THROW(static_cast<void>(streams.consumer("S", name)), std::invalid_argument) << name;
  }
  EXPECT_THROW(jetstream(bus, {.timeout = 0s}), std::invalid_argument);
  EXPECT_THROW(jetstream(bus, {.attempt_timeout = 0s}), std::invalid_argument);
  EXPECT_THROW(jetstream(bus, {.no_stream_timeout = -1s}), std::invalid_argument);
  EXPECT_THROW(jetstream(bus, {.max_unacknowledged = 0}), std::invalid_argument);
  EXPECT_THROW(jetstream(bus, {.domain = "a", .api_prefix = "b"}), std::invalid_argument);
  EXPECT_THROW(jetstream(bus, {.api_prefix = "a b"}), std::system_error);
}

// --- Consumers ---

TEST_F(JetStream, ManagesConsumers) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    co_await test.publish(1, 3);
    const jetstream& js = test.streams;
    consumer_config config{.name = "c"};
    config.max_ack_pending = 5;
    config.backoff = {1s, 2s};
    config.max_deliveries = 4;
    const consumer created = co_await js.create_consumer("ORDERS", config);
    EXPECT_EQ(created.stream(), "ORDERS");
    EXPECT_EQ(created.name(), "c");
    const gyre::nats::consumer_info info = co_await created.info();
    EXPECT_EQ(info.pending, 3U);
    EXPECT_EQ(info.config.max_ack_pending, 5U);
    EXPECT_EQ(info.config.backoff, config.backoff);
    EXPECT_TRUE(info.config.is_durable);
    co_await js.create_consumer("ORDERS", config);

    consumer_config other = config;
    other.max_ack_pending = 6;
    EXPECT_EQ(co_await error_of(js.create_consumer("ORDERS", other)),
              jetstream_errc::consumer_exists);
    const consumer updated = co_await js.update_consumer("ORDERS", other);
    const gyre::nats::consumer_info changed = co_await updated.info();
    EXPECT_EQ(changed.config.max_ack_pending, 6U);
    const consumer_config unknown{.name = "unknown"};
    EXPECT_EQ(co_await error_of(js.update_consumer("ORDERS", unknown)),
              jetstream_errc::consumer_does_not_exist);

    consumer_config nameless;
    nameless.filter_subjects = {"orders.a", "orders.b"};
    const consumer made = co_await js.create_consumer("ORDERS", nameless);
    EXPECT_NE(made.name(), "");
    EXPECT_THAT(co_await js.consumer_names("ORDERS"), SizeIs(2));
    co_await js.delete_consumer("ORDERS", made.name());
    EXPECT_EQ(co_await error_of(js.consumer("ORDERS", made.name())),
              jetstream_errc::consumer_not_found);
    const consumer found = co_await js.consumer("ORDERS", "c");
    EXPECT_EQ(found.name(), "c");
  }(*this));
}

TEST_F(JetStream, FetchesMessagesThatAreThere) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    co_await test.publish(1, 3);
    auto messages = co_await orders.fetch(10, {.expires = 100s});  // does not wait for the rest
    EXPECT_THAT(texts_of(messages), ElementsAre("1", "2", "3"));
    const auto metadata = messages.at(1).metadata();
    EXPECT_EQ(metadata.stream, "ORDERS");
    EXPECT_EQ(metadata.consumer, "c");
    EXPECT_EQ(metadata.stream_sequence, 2U);
    EXPECT_EQ(metadata.consumer_sequence, 2U);
    EXPECT_EQ(metadata.deliveries, 1U);
    EXPECT_EQ(metadata.pending, 1U);
    EXPECT_GT(metadata.stored.time_since_epoch(), 1'700'000'000s);
    for (jetstream_message& each : messages) co_await each.ack_sync();
    const auto none = co_await orders.fetch(10, {.expires = 0s});
    EXPECT_THAT(none, IsEmpty());
    const auto none_in_time = co_await orders.next(10ms);
    EXPECT_FALSE(none_in_time);
    const gyre::nats::consumer_info info = co_await orders.info();
    EXPECT_EQ(info.ack_pending, 0U);
    EXPECT_EQ(info.ack_floor.stream_sequence, 3U);
  }(*this));
}

TEST_F(JetStream, FetchWaitsForTheFirstMessageOrForAll) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    auto first = gyre::when_all(orders.next(100s), test.publish(1, 1));
    const auto [one, published] = co_await std::move(first);
    EXPECT_EQ(one->text(), "1");
    auto all = gyre::when_all(orders.fetch(3, {.expires = 100s, .waits_for_all = true}),
                              test.publish(2, 4));
    const auto [three, published_three] = co_await std::move(all);
    EXPECT_THAT(texts_of(three), ElementsAre("2", "3", "4"));
    const auto some = co_await orders.fetch(3, {.expires = 10ms, .waits_for_all = true});
    EXPECT_THAT(some, IsEmpty());
  }(*this));
}

TEST_F(JetStream, FetchHasALimitOfBytes) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    co_await test.publish(1, 2);
    const std::string large(10'000, 'x');
    co_await test.streams.publish("orders.new", large);
    const auto small = co_await orders.fetch(10, {.max_bytes = 1000});
    EXPECT_THAT(texts_of(small), ElementsAre("1", "2"));
    EXPECT_EQ(co_await error_of(orders.fetch(10, {.max_bytes = 1000})),
              jetstream_errc::message_too_large);
    const auto rest = co_await orders.fetch(10, {.max_bytes = 20'000});
    EXPECT_THAT(texts_of(rest), ElementsAre(large));
  }(*this));
}

TEST_F(JetStream, SharesMessagesAmongClients) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    client other(test.loop, test.server.address());
    const jetstream other_streams(other);
    const consumer same = co_await other_streams.consumer("ORDERS", "c");
    auto both =
        gyre::when_all(orders.fetch(2, {.expires = 100s, .waits_for_all = true}),
                       same.fetch(2, {.expires = 100s, .waits_for_all = true}), test.publish(1, 4));
    const auto [first, second, published] = co_await std::move(both);
    std::vector<std::string> all = texts_of(first);
    for (const std::string& each : texts_of(second)) all.push_back(each);
    EXPECT_THAT(all, testing::UnorderedElementsAre("1", "2", "3", "4"));
  }(*this));
}

TEST_F(JetStream, DeliversAgainAfterALostAcknowledgement) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    consumer_config config{.name = "c"};
    config.ack_wait = 200ms;
    const consumer orders = co_await test.create_consumer(config);
    co_await test.publish(1, 1);
    const std::string state = test.stored_consumer();
    auto first = co_await orders.next(100s);
    // Otherwise the killed server may have forgotten that it delivered the message.
    for (std::string now = state; now == state || now.empty(); now = test.stored_consumer()) {
      co_await gyre::sleep_for(1ms);
    }
    test.server.pause();
    co_await first->ack();  // reaches a server that dies before it reads
    co_await test.server.kill();
    co_await test.server.start_again();
    auto again = co_await orders.next(100s);
    EXPECT_EQ(again->text(), "1");
    EXPECT_EQ(again->metadata().stream_sequence, 1U);
    EXPECT_GE(again->metadata().deliveries, 2U);
    co_await again->ack_sync();
    const auto none = co_await orders.fetch(1, {.expires = 0s});
    EXPECT_THAT(none, IsEmpty());
  }(*this));
}

TEST_F(JetStream, DeliversAgainWhatWasNotAcknowledgedInTime) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    consumer_config config{.name = "c"};
    config.ack_wait = 100ms;
    const consumer orders = co_await test.create_consumer(config);
    co_await test.publish(1, 1);
    const auto first = co_await orders.next(100s);
    EXPECT_EQ(first->metadata().deliveries, 1U);
    const auto second = co_await orders.next(100s);
    EXPECT_EQ(second->metadata().deliveries, 2U);
  }(*this));
}

TEST_F(JetStream, NegativeAcknowledgementsDeliverAgainOrNever) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    co_await test.publish(1, 1);
    auto first = co_await orders.next(100s);
    co_await first->in_progress();
    co_await first->nak();
    auto second = co_await orders.next(100s);
    EXPECT_EQ(second->metadata().deliveries, 2U);
    co_await second->nak(1ms);
    auto third = co_await orders.next(100s);
    EXPECT_EQ(third->metadata().deliveries, 3U);
    co_await third->term("it is\nno order");
    for (;;) {  // the server carries it out a little later
      const gyre::nats::consumer_info info = co_await orders.info();
      if (info.ack_pending == 0) break;
    }
    EXPECT_THAT(co_await orders.fetch(1, {.expires = 0s}), IsEmpty());
  }(*this));
}

task<bool> is_refused(task<> acknowledgement) {
  try {
    co_await std::move(acknowledgement);
  } catch (const std::logic_error&) {
    co_return true;
  }
  co_return false;
}

// Another client may send headers that this one refuses to send.
TEST_F(JetStream, ReadsStoredMessagesWithAnyHeaders) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const header_view odd("My Name: 1\r\nA: x\ny\r\n\xc3\xa4: 2\r\njunk\r\nGood: 3\r\n");
    const auto ack = co_await test.bus.request("orders.new", "odd", {.headers = odd});
    EXPECT_THAT(ack.text(), HasSubstr(R"("seq":1)"));
    const auto check = [](header_view lines) {
      EXPECT_EQ(lines.find("My Name"), "1");
      EXPECT_EQ(lines.find("A"), "x\ny");
      EXPECT_EQ(lines.find("\xc3\xa4"), "2");
      EXPECT_EQ(lines.find("Good"), "3");
    };
    const auto stored = co_await test.streams.message("ORDERS", 1);
    EXPECT_EQ(stored->text, "odd");
    check(stored->headers);
    headers changed = stored->headers;
    check(changed.add("B", "4"));
    EXPECT_EQ(changed.find("B"), "4");
    const auto last = co_await test.streams.last_message("ORDERS", "orders.new");
    check(last->headers);
    const consumer orders = co_await test.create_consumer();
    const auto fetched = co_await orders.next(100s);
    check(fetched->headers());
  }(*this));
}

TEST_F(JetStream, AcknowledgesAMessageOnce) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    co_await test.publish(1, 1);
    auto order = co_await orders.next(100s);
    co_await order->ack();
    EXPECT_TRUE(co_await is_refused(order->ack()));
    EXPECT_TRUE(co_await is_refused(order->nak()));
    EXPECT_TRUE(co_await is_refused(order->term()));
    EXPECT_TRUE(co_await is_refused(order->in_progress()));
    EXPECT_TRUE(co_await is_refused(order->ack_sync()));
    jetstream_message empty;
    EXPECT_EQ(empty.text(), "");
    EXPECT_EQ(empty.metadata().stream, "");
    EXPECT_TRUE(co_await is_refused(empty.ack()));
  }(*this));
}

TEST_F(JetStream, FollowsAConsumer) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    for (const std::size_t max : {1U, 2U, 7U, 256U}) {
      co_await test.publish(1, 100);
      consumer_messages messages = orders.messages({.max_messages = max});
      for (int each = 1; each <= 100; ++each) {
        auto order = co_await messages.next();
        EXPECT_EQ(order->text(), std::to_string(each));
        co_await order->ack();
      }
      EXPECT_FALSE(messages.try_next());
      EXPECT_EQ(messages.missed_heartbeats(), 0U);
    }
  }(*this));
}

TEST_F(JetStream, FollowsAConsumerWithinALimitOfBytes) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    const std::string text(1000, 'x');
    for (int each = 0; each < 50; ++each) co_await test.streams.publish("orders.new", text);
    consumer_messages messages = orders.messages({.max_bytes = 5000});
    for (int each = 0; each < 50; ++each) {
      auto order = co_await messages.next();
      EXPECT_EQ(order->text().size(), 1000U);
      co_await order->ack_sync();
      const gyre::nats::consumer_info info = co_await orders.info();
      EXPECT_LE(info.ack_pending, 5U);
    }
    co_await test.streams.publish("orders.new", std::string(10'000, 'x'));
    EXPECT_EQ(co_await error_of(messages.next()), jetstream_errc::message_too_large);
    EXPECT_EQ(co_await error_of(messages.next()), jetstream_errc::message_too_large);
  }(*this));
}

TEST_F(JetStream, RequestsNoMoreThanAReaderTakes) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    co_await test.publish(1, 100);
    consumer_messages messages = orders.messages({.max_messages = 8});
    for (int each = 1; each <= 20; ++each) {
      auto order = co_await messages.next();
      EXPECT_EQ(order->text(), std::to_string(each));
      co_await order->ack_sync();
      const gyre::nats::consumer_info info = co_await orders.info();
      EXPECT_LE(info.ack_pending, 8U);
    }
  }(*this));
}

TEST_F(JetStream, AStoppedWaitLosesNoMessage) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    consumer_messages messages = orders.messages();
    for (int each = 1; each <= 20; ++each) {
      EXPECT_EQ(co_await error_of(gyre::with_timeout(messages.next(), 1ms)), std::errc::timed_out);
      co_await test.publish(each, each);
      auto order = co_await messages.next();
      EXPECT_EQ(order->text(), std::to_string(each));
      EXPECT_EQ(order->metadata().deliveries, 1U);
      co_await order->ack();
    }
  }(*this));
}

TEST_F(JetStream, TakesMessagesWithoutWaiting) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    co_await test.publish(1, 3);
    consumer_messages messages = orders.messages();
    std::vector<jetstream_message> taken;
    while (taken.size() < 3) {
      while (auto order = messages.try_next()) taken.push_back(std::move(*order));
      co_await test.bus.flush();
    }
    EXPECT_THAT(texts_of(taken), ElementsAre("1", "2", "3"));
  }(*this));
}

TEST_F(JetStream, TellsThatAConsumerWasDeleted) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    consumer_messages messages = orders.messages();
    auto deleted =
        gyre::when_all(error_of(messages.next()), error_of(orders.fetch(1, {.expires = 100s})),
                       [](JetStream& fixture, const consumer& source) -> task<> {
                         // A request that comes while the consumer is being deleted gets no status.
                         for (std::uint64_t waiting = 0; waiting < 2;) {
                           waiting = (co_await source.info()).waiting_requests;
                         }
                         co_await fixture.streams.delete_consumer("ORDERS", "c");
                       }(test, orders));
    const auto [followed, fetched, done] = co_await std::move(deleted);
    EXPECT_EQ(followed, jetstream_errc::consumer_deleted);
    EXPECT_EQ(fetched, jetstream_errc::consumer_deleted);
    EXPECT_EQ(co_await error_of(orders.fetch(1, {.expires = 0s})), jetstream_errc::no_stream);
  }(*this));
}

TEST_F(JetStream, TellsOfAConsumerThatWasDeletedWhileNobodyAsked) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    consumer_messages messages = orders.messages();
    co_await test.streams.delete_consumer("ORDERS", "c");
    EXPECT_EQ(co_await error_of(messages.next()), jetstream_errc::consumer_deleted);
    co_await test.create_consumer();
    co_await test.streams.publish("orders.new", "1");
    auto received = co_await messages.next();
    EXPECT_EQ(received.value().text(), "1");
    co_await test.streams.delete_stream("ORDERS");
    EXPECT_EQ(co_await error_of(messages.next()), jetstream_errc::consumer_deleted);
  }(*this));
}

TEST_F(JetStream, TellsWhyTheServerGivesNoMessages) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    consumer_config config{.name = "c"};
    config.max_request_messages = 5;
    const consumer orders = co_await test.create_consumer(config);
    EXPECT_THAT(co_await message_of(orders.fetch(6)), HasSubstr("MaxRequestBatch"));
    consumer_messages messages = orders.messages({.max_messages = 6});
    EXPECT_EQ(co_await error_of(messages.next()), jetstream_errc::pull_refused);
    EXPECT_EQ(co_await error_of(messages.next()), jetstream_errc::pull_refused);
    EXPECT_THROW(static_cast<void>(orders.fetch(0)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(orders.fetch(1'000'001)), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(orders.fetch(1, {.expires = 0s, .waits_for_all = true})),
                 std::invalid_argument);
    EXPECT_THROW(static_cast<void>(orders.messages({.max_messages = 0})), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(orders.messages({.heartbeat = 1ms})), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(orders.messages({.expires = 1s})), std::invalid_argument);
  }(*this));
}

TEST_F(JetStream, ContinuesAfterARestartOfTheServer) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    consumer_messages messages = orders.messages();
    for (int each = 1; each <= 3; ++each) {
      co_await test.publish(each, each);
      auto order = co_await messages.next();
      EXPECT_EQ(order->text(), std::to_string(each));
      co_await order->ack_sync();
      co_await test.server.stop();  // a killed server may forget acknowledgements
      co_await test.server.start_again();
    }
  }(*this));
}

TEST_F(JetStream, RequestsAllMessagesAgainOnANewConnection) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    co_await test.publish(1, 3);
    client other(test.loop, test.server.address(), {.initial_delay = 10ms, .longest_delay = 100ms});
    auto requests = other.subscribe("$JS.API.CONSUMER.MSG.NEXT.ORDERS.c");
    co_await other.flush();
    const std::uint64_t received = test.bus.metrics().received;
    consumer_messages messages = orders.messages({.max_messages = 4});
    EXPECT_EQ(co_await text_of(messages), "1");
    while (test.bus.metrics().received < received + 3) co_await test.bus.flush();
    const auto before = co_await requests.next();
    EXPECT_THAT(before->text(), HasSubstr(R"("batch":4,)"));

    co_await test.server.kill();
    co_await test.server.start_again();
    while (test.bus.metrics().connected < 2 || other.metrics().connected < 2) {
      co_await gyre::sleep_for(1ms);
    }
    co_await other.flush();
    EXPECT_EQ(co_await text_of(messages), "2");
    // The request before, of which one message is left, was lost with the connection.
    const auto after = co_await requests.next();
    EXPECT_THAT(after->text(), HasSubstr(R"("batch":4,)"));
    EXPECT_EQ(co_await text_of(messages), "3");
  }(*this));
}

TEST_F(JetStream, AFetchLastsOverARestartOfTheServer) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    auto restart = [](JetStream& fixture) -> task<> {
      co_await fixture.bus.flush();
      co_await fixture.server.kill();
      co_await fixture.server.start_again();
      co_await fixture.publish(1, 2);
    };
    auto both =
        gyre::when_all(orders.fetch(2, {.expires = 1h, .waits_for_all = true}), restart(test));
    const auto [messages, restarted] = co_await std::move(both);
    EXPECT_THAT(texts_of(messages), ElementsAre("1", "2"));
  }(*this));
}

TEST_F(JetStream, RequestsMessagesAgainWhenTheServerIsSilent) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    consumer_messages messages = orders.messages({.heartbeat = 100ms});
    EXPECT_EQ(co_await error_of(gyre::with_timeout(messages.next(), 10ms)), std::errc::timed_out);
    test.server.pause();
    while (messages.missed_heartbeats() < 2) {
      static_cast<void>(co_await error_of(gyre::with_timeout(messages.next(), 50ms)));
    }
    test.server.resume();
    co_await test.publish(1, 1);
    auto order = co_await messages.next();
    EXPECT_EQ(order->text(), "1");
  }(*this));
}

TEST_F(JetStream, EndsWhenTheClientIsClosed) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    consumer_messages messages = orders.messages();
    auto closing = [](client& target) -> task<> {
      target.close();
      co_return;
    };
    auto both = gyre::when_all(messages.next(), closing(test.bus));
    const auto [ended, closed] = co_await std::move(both);
    EXPECT_FALSE(ended);
    EXPECT_FALSE(co_await messages.next());
    EXPECT_FALSE(messages.try_next());
    EXPECT_NE(co_await error_of(orders.fetch(1)), std::error_code());
    EXPECT_NE(co_await error_of(test.streams.publish("orders.new", "a")), std::error_code());
  }(*this));
}

TEST_F(JetStream, ReadsMessagesThatHaveComeBeforeTheClientWasClosed) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    co_await test.publish(1, 4);
    const std::uint64_t received = test.bus.metrics().received;
    consumer_messages messages = orders.messages({.max_messages = 4});
    EXPECT_EQ(co_await text_of(messages), "1");
    while (test.bus.metrics().received < received + 4) co_await test.bus.flush();
    test.bus.close();
    for (const char* text : {"2", "3", "4", "end", "end"}) {
      EXPECT_EQ(co_await text_of(messages), text);
    }
  }(*this));
}

TEST_F(JetStream, RefusesCallsOfObjectsThatWereMovedFrom) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer made = co_await test.create_consumer();
    consumer_messages messages = moved_from(made.messages());
    EXPECT_THAT(co_await message_of(messages.next()), HasSubstr("moved from"));
    EXPECT_THROW(static_cast<void>(messages.try_next()), std::logic_error);
    EXPECT_EQ(messages.missed_heartbeats(), 0U);
    const consumer orders = moved_from(made);
    EXPECT_THROW(static_cast<void>(orders.info()), std::logic_error);
    EXPECT_THROW(static_cast<void>(orders.fetch(1)), std::logic_error);
    EXPECT_THROW(static_cast<void>(orders.next()), std::logic_error);
    EXPECT_THROW(static_cast<void>(orders.messages()), std::logic_error);
    const jetstream empty = moved_from(test.streams);
    EXPECT_THROW(static_cast<void>(empty.publish("orders.new", "a")), std::logic_error);
    EXPECT_THROW(static_cast<void>(empty.publish_async("orders.new", "a")), std::logic_error);
    EXPECT_THROW(static_cast<void>(empty.stream("ORDERS")), std::logic_error);
    EXPECT_THROW(static_cast<void>(empty.stream_names()), std::logic_error);
    EXPECT_THROW(static_cast<void>(empty.message("ORDERS", 1)), std::logic_error);
    EXPECT_THROW(static_cast<void>(empty.consumer("ORDERS", "c")), std::logic_error);
    EXPECT_THROW(static_cast<void>(empty.account()), std::logic_error);
    EXPECT_EQ(empty.unacknowledged(), 0U);
  }(*this));
}

TEST_F(JetStream, OutlivesItsClient) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    std::optional<consumer> orders;
    std::optional<consumer_messages> messages;
    std::optional<jetstream_message> order;
    {
      client other(test.loop, test.server.address());
      const jetstream js(other);
      const consumer_config config{.name = "c"};
      orders = co_await js.create_consumer("ORDERS", config);
      messages.emplace(orders->messages());
      co_await test.publish(1, 1);
      order = co_await messages->next();
    }
    EXPECT_EQ(order->text(), "1");
    EXPECT_NE(co_await error_of(order->ack()), std::error_code());
    EXPECT_FALSE(co_await messages->next());
    EXPECT_NE(co_await error_of(orders->info()), std::error_code());
  }(*this));
}

// --- Calls that are stopped at any moment ---

task<> stop_later(gyre::inplace_stop_source& source, int turns) {
  for (; turns > 0; --turns) co_await gyre::sleep_for(0s);
  source.request_stop();
}

template <class Call>
task<> stop_at_random(Call call, std::mt19937& random) {
  gyre::inplace_stop_source source;
  auto stopped = gyre::as_task(gyre::stop_when(std::move(call), source.get_token()));
  auto both = gyre::when_all(error_of(std::move(stopped)),
                             stop_later(source, static_cast<int>(random() % 20)));
  static_cast<void>(co_await std::move(both));
}

TEST_F(JetStream, MayBeStoppedAtAnyMoment) {
  run([](JetStream& test) -> task<> {
    co_await test.create_stream();
    const consumer orders = co_await test.create_consumer();
    consumer_messages messages = orders.messages({.max_messages = 4});
    std::mt19937 random(7);
    for (int each = 0; each < 200; ++each) {
      co_await stop_at_random(test.streams.publish("orders.new", "a"), random);
      co_await stop_at_random(messages.next(), random);
      co_await stop_at_random(orders.fetch(2, {.expires = 1ms}), random);
      co_await stop_at_random(test.streams.stream("ORDERS"), random);
      co_await stop_at_random(test.streams.publish_async("orders.new", "b"), random);
    }
    // The last publication goes on after its call was stopped.
    while (test.streams.unacknowledged() > 0) co_await gyre::sleep_for(0s);
    // No reply has reached another call.
    const publish_ack ack = co_await test.streams.publish("orders.new", "last");
    const auto last = co_await test.streams.message("ORDERS", ack.sequence);
    EXPECT_EQ(last->text, "last");
    const stream_info info = co_await test.streams.stream("ORDERS");
    EXPECT_EQ(info.state.last_sequence, ack.sequence);
  }(*this));
}

// --- Servers without JetStream, and replies by others ---

// A loop, and a server without JetStream.
struct JetStreamPeer : testing::Test {
  gyre::loop loop;
  nats_server server{loop};
  client bus{loop, server.address()};
  client other{loop, server.address()};

  void run(task<> test) { gyre::sync_wait(loop, gyre::with_timeout(std::move(test), 200s)); }
};

TEST_F(JetStreamPeer, TellsThatTheServerHasNoJetStream) {
  run([](JetStreamPeer& test) -> task<> {
    const jetstream streams(test.bus, {.no_stream_timeout = 0s});
    const std::error_code error = co_await error_of(streams.account());
    EXPECT_TRUE(error == jetstream_errc::no_stream || error == jetstream_errc::not_enabled)
        << error.message();
  }(*this));
}

task<> reply_to_all(client& bus, gyre::nats::subscription requests, std::string text) {
  while (auto request = co_await requests.next()) co_await bus.publish(request->reply(), text);
}

TEST_F(JetStreamPeer, RefusesRepliesThatAreNone) {
  run([](JetStreamPeer& test) -> task<> {
    const jetstream streams(test.bus);
    for (const char* text : {"", "no JSON", "{}", "[1]", "{\"error\":7}"}) {
      auto requests = test.other.subscribe("$JS.API.STREAM.INFO.S", {.unsubscribe_after = 1});
      auto replies = gyre::when_all(reply_to_all(test.other, std::move(requests), text),
                                    error_of(streams.stream("S")));
      const auto [replied, error] = co_await std::move(replies);
      EXPECT_EQ(error, jetstream_errc::bad_reply) << text;
    }
  }(*this));
}

}  // namespace
}  // namespace jetstream_test
