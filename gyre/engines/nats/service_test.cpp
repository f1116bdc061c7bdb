// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/service.hpp>

#include <gyre/engines/nats/call_service.hpp>
#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/nats_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace service_test {
namespace {

using namespace std::chrono_literals;
using gyre::manual_reset_event;
using gyre::task;
using gyre::nats::call_service;
using gyre::nats::client;
using gyre::nats::endpoint_stats;
using gyre::nats::errc;
using gyre::nats::find_services;
using gyre::nats::headers;
using gyre::nats::message;
using gyre::nats::service;
using gyre::nats::service_error;
using gyre::nats::service_info;
using gyre::nats::service_request;
using gyre::nats::service_response;
using gyre::test::nats_server;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using nats_test::moved_from;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A loop, a server, a client for services and one of their callers.
struct Service : testing::Test {
  gyre::loop loop;
  nats_server server{loop};
  client bus{loop, server.address(), {.initial_delay = 10ms, .longest_delay = 100ms}};
  client caller{loop, server.address(), {.initial_delay = 10ms, .longest_delay = 100ms}};

  void run(task<> test) { gyre::sync_wait(loop, gyre::with_timeout(std::move(test), 200s)); }
  service make() { return service(bus, {.name = "orders", .version = "1.0.0"}); }
  // Once the server knows all subscriptions, and the caller has a connection: a limit of a call's
  // time would pass meanwhile.
  task<> ready() {
    co_await caller.connect();
    co_await bus.flush();
  }
};

task<service_response> greet(const service_request& request) {
  co_return "hello " + std::string(request.text());
}

task<std::string> text_of(task<message> call) {
  const message reply = co_await std::move(call);
  co_return std::string(reply.text());
}

// The code of a service_error, or 0.
task<int> code_of(task<message> call) {
  try {
    static_cast<void>(co_await std::move(call));
  } catch (const service_error& error) {
    co_return error.code();
  }
  co_return 0;
}

TEST_F(Service, RepliesToRequests) {
  run([](Service& test) -> task<> {
    service orders = test.make();
    orders.add_endpoint("greet", greet);
    orders.add_endpoint("echo",
                        [](const service_request& request) -> task<service_response> {
                          headers back{{"Subject", request.subject()}};
                          back.add("Trace", request.headers().find("Trace").value_or("none"));
                          co_return service_response(std::string(request.text()), std::move(back));
                        },
                        {.subject = "orders.echo.*"});
    co_await test.ready();
    EXPECT_EQ(co_await text_of(call_service(test.caller, "greet", "you")), "hello you");
    const headers trace{{"Trace", "7f"}};
    const message echo =
        co_await call_service(test.caller, "orders.echo.x", "any", {.headers = trace});
    EXPECT_EQ(echo.text(), "any");
    EXPECT_EQ(echo.headers().find("Subject"), "orders.echo.x");
    EXPECT_EQ(echo.headers().find("Trace"), "7f");
    const std::vector<endpoint_stats> stats = orders.stats();
    EXPECT_EQ(stats.at(0).requests, 1U);
    EXPECT_EQ(stats.at(0).errors, 0U);
    EXPECT_EQ(stats.at(1).endpoint.subject, "orders.echo.*");
    EXPECT_EQ(stats.at(1).endpoint.queue_group, "q");
    orders.reset_stats();
    EXPECT_EQ(orders.stats().at(0).requests, 0U);
  }(*this));
}

TEST_F(Service, RepliesErrors) {
  run([](Service& test) -> task<> {
    service orders = test.make();
    orders.add_endpoint("known", [](const service_request&) -> task<service_response> {
      throw service_error(404, "no such\r\norder");
      co_return "";
    });
    orders.add_endpoint("unknown", [](const service_request&) -> task<service_response> {
      throw std::runtime_error("a secret");
      co_return "";
    });
    orders.add_endpoint("odd", [](const service_request&) -> task<service_response> {
      throw 7;
      co_return "";
    });
    co_await test.ready();
    EXPECT_EQ(co_await code_of(call_service(test.caller, "known", "")), 404);
    EXPECT_EQ(co_await message_of(call_service(test.caller, "known", "")), "no such  order");
    EXPECT_EQ(co_await code_of(call_service(test.caller, "unknown", "")), 500);
    EXPECT_EQ(co_await message_of(call_service(test.caller, "unknown", "")), "internal error");
    EXPECT_EQ(co_await code_of(call_service(test.caller, "odd", "")), 500);
    EXPECT_EQ(orders.stats().at(0).errors, 2U);
    EXPECT_EQ(orders.stats().at(0).last_error, "404:no such  order");
    EXPECT_EQ(orders.stats().at(1).last_error, "500:a secret");
    EXPECT_EQ(co_await error_of(call_service(test.caller, "nobody", "")), errc::no_responders);
  }(*this));
}

// Handlers that wait for an event, and count those that run.
struct gate {
  manual_reset_event open;
  manual_reset_event entered;
  std::size_t running = 0;
  std::size_t most = 0;
  std::size_t stopped = 0;

  service::handler handler() {
    return [this](const service_request& request) { return pass(*this, request); };
  }
  static task<service_response> pass(gate& self, const service_request& request) {
    self.most = std::max(self.most, ++self.running);
    self.entered.set();
    bool was_stopped = false;
    try {
      co_await self.open.wait();
    } catch (const gyre::operation_cancelled&) {
      was_stopped = true;
    }
    --self.running;
    if (was_stopped) {
      ++self.stopped;
      throw gyre::operation_cancelled();
    }
    co_return std::string(request.text());
  }
};

TEST_F(Service, LimitsHandlersAndWaitingRequests) {
  run([](Service& test) -> task<> {
    gate door;
    service orders = test.make();
    orders.add_endpoint("slow", door.handler(), {.max_concurrent = 2, .max_waiting = 3});
    co_await test.ready();
    std::vector<task<int>> calls;
    for (int each = 0; each < 9; ++each) {
      calls.push_back(code_of(call_service(test.caller, "slow", "x")));
    }
    auto open_when_full = [](service& target, gate& barrier) -> task<> {
      // Handlers begin after their requests were counted.
      while (target.stats().at(0).requests < 9 || target.stats().at(0).running < 2) {
        co_await gyre::sleep_for(0s);
      }
      EXPECT_EQ(target.stats().at(0).running, 2U);
      EXPECT_EQ(target.stats().at(0).waiting, 3U);
      EXPECT_EQ(target.stats().at(0).refused, 4U);
      barrier.open.set();
    };
    auto all = gyre::when_all(gyre::when_all(std::move(calls)), open_when_full(orders, door));
    const auto [codes, opened] = co_await std::move(all);
    EXPECT_EQ(std::ranges::count(codes, 503), 4);
    EXPECT_EQ(std::ranges::count(codes, 0), 5);
    EXPECT_EQ(door.most, 2U);
  }(*this));
}

TEST_F(Service, LimitsTheBytesOfWaitingRequests) {
  run([](Service& test) -> task<> {
    gate door;
    service orders = test.make();
    orders.add_endpoint("slow", door.handler(), {.max_concurrent = 1, .max_bytes = 2500});
    co_await test.ready();
    const std::string text(1000, 'x');
    auto open_when_full = [](service& target, gate& barrier) -> task<> {
      while (target.stats().at(0).requests < 3) co_await gyre::sleep_for(0s);
      barrier.open.set();
    };
    auto all = gyre::when_all(code_of(call_service(test.caller, "slow", text)),
                              code_of(call_service(test.caller, "slow", text)),
                              code_of(call_service(test.caller, "slow", text)),
                              open_when_full(orders, door));
    const auto [first, second, third, opened] = co_await std::move(all);
    EXPECT_EQ(first, 0);
    EXPECT_EQ(second, 0);
    EXPECT_EQ(third, 503);
  }(*this));
}

TEST_F(Service, StopsHandlersAtTheirDeadline) {
  run([](Service& test) -> task<> {
    gate door;
    service orders = test.make();
    orders.add_endpoint("slow", door.handler(), {.timeout = 10ms});
    orders.add_endpoint("deadline",
                        [](const service_request& request) -> task<service_response> {
                          const auto left = request.deadline() - std::chrono::steady_clock::now();
                          co_return left <= 30s ? "short" : "long";
                        },
                        {.timeout = 1h});
    co_await test.ready();
    EXPECT_EQ(co_await code_of(call_service(test.caller, "slow", "")), 504);
    EXPECT_EQ(door.stopped, 1U);
    EXPECT_EQ(orders.stats().at(0).running, 0U);
    EXPECT_EQ(co_await text_of(call_service(test.caller, "deadline", "", {.timeout = 30s})),
              "short");
    EXPECT_EQ(co_await text_of(call_service(test.caller, "deadline", "")), "long");
    for (const char* odd : {"-5", "x", "", "99999999999999999999"}) {
      const headers lines{{"Gyre-Timeout", odd}};
      EXPECT_EQ(co_await text_of(call_service(test.caller, "deadline", "", {.headers = lines})),
                "long");
    }
  }(*this));
}

TEST_F(Service, RepliesATimeLimitOfTheHandlerAsItsError) {
  run([](Service& test) -> task<> {
    gate door;
    service orders = test.make();
    orders.add_endpoint("inner",
                        [&door](const service_request& request) -> task<service_response> {
                          return gyre::with_timeout(gate::pass(door, request), 1ms);
                        },
                        {.timeout = 1h});
    co_await test.ready();
    EXPECT_EQ(co_await code_of(call_service(test.caller, "inner", "")), 500);
    EXPECT_THAT(orders.stats().at(0).last_error, HasSubstr("the time limit expired"));
  }(*this));
}

TEST_F(Service, StopsAHandlerWhoseClientHasGivenUp) {
  run([](Service& test) -> task<> {
    gate door;
    service orders = test.make();
    orders.add_endpoint("slow", door.handler());
    co_await test.ready();
    EXPECT_NE(co_await error_of(call_service(test.caller, "slow", "", {.timeout = 10ms})),
              std::error_code());
    while (door.stopped == 0) co_await gyre::sleep_for(0s);
    EXPECT_EQ(orders.stats().at(0).last_error.substr(0, 3), "504");
  }(*this));
}

TEST_F(Service, SharesRequestsAmongInstances) {
  run([](Service& test) -> task<> {
    service first = test.make();
    client second_bus(test.loop, test.server.address());
    service second(second_bus, {.name = "orders", .version = "1.0.1"});
    first.add_endpoint("greet", greet);
    second.add_endpoint("greet", greet);
    co_await test.ready();
    co_await second_bus.flush();
    for (int each = 0; each < 200; ++each) {
      EXPECT_EQ(co_await text_of(call_service(test.caller, "greet", "x")), "hello x");
    }
    EXPECT_EQ(first.stats().at(0).requests + second.stats().at(0).requests, 200U);
    EXPECT_GT(first.stats().at(0).requests, 0U);
    EXPECT_GT(second.stats().at(0).requests, 0U);
    EXPECT_NE(first.id(), second.id());
  }(*this));
}

TEST_F(Service, AnswersTheServiceProtocol) {
  run([](Service& test) -> task<> {
    gyre::nats::service_config config{.name = "orders", .version = "1.0.0-rc.1+build.7"};
    config.description = "all orders";
    config.metadata = {{"zone", "x"}};
    service orders(test.bus, config);
    orders.add_endpoint("greet", greet, {.subject = "orders.greet", .queue_group = "other"});
    orders.add_endpoint("all", greet, {.has_no_queue_group = true});
    co_await test.ready();
    static_cast<void>(co_await call_service(test.caller, "orders.greet", ""));
    for (const std::string& rest :
         {std::string(), std::string(".orders"), ".orders." + orders.id()}) {
      EXPECT_THAT(co_await text_of(test.caller.request("$SRV.PING" + rest, {})),
                  HasSubstr(R"("type":"io.nats.micro.v1.ping_response")"));
      EXPECT_THAT(co_await text_of(test.caller.request("$SRV.INFO" + rest, {})),
                  HasSubstr(R"("subject":"orders.greet")"));
      EXPECT_THAT(co_await text_of(test.caller.request("$SRV.STATS" + rest, {})),
                  HasSubstr(R"("num_requests":1)"));
    }
    const auto found = co_await find_services(test.caller, "orders", {.max_instances = 1});
    EXPECT_THAT(found, SizeIs(1));
    EXPECT_EQ(found.at(0).id, orders.id());
    EXPECT_EQ(found.at(0).version, "1.0.0-rc.1+build.7");
    EXPECT_EQ(found.at(0).description, "all orders");
    EXPECT_EQ(found.at(0).metadata.at("zone"), "x");
    EXPECT_EQ(found.at(0).endpoints.at(0).queue_group, "other");
    EXPECT_EQ(found.at(0).endpoints.at(1).queue_group, "");
    EXPECT_EQ(co_await error_of(test.caller.request("$SRV.PING.other", {})), errc::no_responders);
    EXPECT_THAT(co_await find_services(test.caller, "other"), IsEmpty());
  }(*this));
}

TEST_F(Service, DrainServesWhatHasCome) {
  run([](Service& test) -> task<> {
    gate door;
    service orders = test.make();
    orders.add_endpoint("slow", door.handler(), {.max_concurrent = 1});
    co_await test.ready();
    auto drain = [](Service& owner, service& target, gate& barrier) -> task<> {
      while (target.stats().at(0).requests < 3) co_await gyre::sleep_for(0s);
      auto ended = gyre::when_all(target.drain(), [](Service& fixture, gate& latch) -> task<> {
        while (co_await error_of(fixture.caller.request("$SRV.PING.orders", {})) !=
               errc::no_responders) {
        }
        EXPECT_EQ(co_await error_of(call_service(fixture.caller, "slow", "late")),
                  errc::no_responders);
        latch.open.set();
      }(owner, barrier));
      co_await std::move(ended);
      co_await target.wait();
    };
    auto all =
        gyre::when_all(text_of(call_service(test.caller, "slow", "1")),
                       text_of(call_service(test.caller, "slow", "2")),
                       text_of(call_service(test.caller, "slow", "3")), drain(test, orders, door));
    const auto [first, second, third, drained] = co_await std::move(all);
    EXPECT_EQ(first, "1");
    EXPECT_EQ(second, "2");
    EXPECT_EQ(third, "3");
    EXPECT_THROW(orders.add_endpoint("more", greet), std::logic_error);
  }(*this));
}

TEST_F(Service, DrainStopsHandlersThatTakeTooLong) {
  run([](Service& test) -> task<> {
    gate door;
    service orders(test.bus, {.name = "orders", .version = "1.0.0", .drain_timeout = 10ms});
    orders.add_endpoint("slow", door.handler());
    co_await test.ready();
    auto drain = [](service& target, gate& barrier) -> task<> {
      co_await barrier.entered.wait();
      co_await target.drain();
      EXPECT_EQ(barrier.stopped, 1U);
    };
    auto both = gyre::when_all(code_of(call_service(test.caller, "slow", "")), drain(orders, door));
    const auto [code, drained] = co_await std::move(both);
    EXPECT_EQ(code, 503);
  }(*this));
}

TEST_F(Service, EndsWhenItIsDestroyed) {
  run([](Service& test) -> task<> {
    gate door;
    auto orders = std::make_optional(test.make());
    orders->add_endpoint("slow", door.handler());
    co_await test.ready();
    auto destroy = [](std::optional<service>& owner, gate& barrier) -> task<> {
      co_await barrier.entered.wait();
      owner.reset();
    };
    auto both =
        gyre::when_all(code_of(call_service(test.caller, "slow", "")), destroy(orders, door));
    const auto [code, destroyed] = co_await std::move(both);
    EXPECT_EQ(code, 503);
    EXPECT_EQ(door.stopped, 1U);
    EXPECT_EQ(co_await error_of(call_service(test.caller, "slow", "")), errc::no_responders);
  }(*this));
}

TEST_F(Service, EndsWithItsClient) {
  run([](Service& test) -> task<> {
    service orders = test.make();
    orders.add_endpoint("greet", greet);
    co_await test.ready();
    auto close = [](client& target) -> task<> {
      target.close();
      co_return;
    };
    auto both = gyre::when_all(orders.wait(), close(test.bus));
    co_await std::move(both);
    EXPECT_THROW(orders.add_endpoint("more", greet), std::system_error);
    co_await orders.drain();
  }(*this));
}

TEST_F(Service, LastsOverARestartOfTheServer) {
  run([](Service& test) -> task<> {
    service orders = test.make();
    orders.add_endpoint("greet", greet);
    co_await test.ready();
    for (int each = 0; each < 3; ++each) {
      co_await test.server.kill();
      co_await test.server.start_again();
      co_await test.ready();
      EXPECT_EQ(co_await text_of(call_service(test.caller, "greet", "x")), "hello x");
    }
  }(*this));
}

TEST_F(Service, NeedsNoReplySubject) {
  run([](Service& test) -> task<> {
    service orders = test.make();
    orders.add_endpoint("greet", greet);
    co_await test.ready();
    co_await test.caller.publish("greet", "x");
    while (orders.stats().at(0).requests == 0) co_await gyre::sleep_for(0s);
    EXPECT_EQ(co_await text_of(call_service(test.caller, "greet", "y")), "hello y");
    EXPECT_EQ(orders.stats().at(0).errors, 0U);
  }(*this));
}

TEST_F(Service, ReportsRepliesThatAreTooLarge) {
  run([](Service& test) -> task<> {
    service orders = test.make();
    orders.add_endpoint("large", [](const service_request&) -> task<service_response> {
      co_return std::string(2'000'000, 'x');
    });
    co_await test.ready();
    EXPECT_EQ(co_await code_of(call_service(test.caller, "large", "")), 500);
    EXPECT_THAT(orders.stats().at(0).last_error, HasSubstr("cannot be sent"));
  }(*this));
}

TEST_F(Service, RefusesNamesAndLimitsThatMakeNoSense) {
  run([](Service& test) -> task<> {
    for (const char* name : {"", "a b", "a.b", "*", "ä"}) {
      EXPECT_THROW(service(test.bus, {.name = name, .version = "1.0.0"}), std::invalid_argument);
    }
    for (const char* version :
         {"", "1", "1.0", "1.0.0.0", "1.0.x", "1.0.0-", "1.0.0+", "1..0", "v1.0.0"}) {
      EXPECT_THROW(service(test.bus, {.name = "a", .version = version}), std::invalid_argument)
          << version;
    }
    service orders = test.make();
    EXPECT_THROW(orders.add_endpoint("a b", greet), std::invalid_argument);
    EXPECT_THROW(orders.add_endpoint("a", greet, {.max_concurrent = 0}), std::invalid_argument);
    EXPECT_THROW(orders.add_endpoint("a", greet, {.timeout = 0s}), std::invalid_argument);
    EXPECT_THROW(orders.add_endpoint("a", greet, {.subject = "a b"}), std::system_error);
    EXPECT_THAT(orders.info().endpoints, IsEmpty());
    orders.add_endpoint("a", greet);
    EXPECT_THAT(orders.info().endpoints, SizeIs(1));
    EXPECT_THROW(static_cast<void>(find_services(test.bus, "a b")), std::invalid_argument);
    co_return;
  }(*this));
}

TEST_F(Service, RefusesCallsOfAClientThatWasMovedFrom) {
  run([](Service& test) -> task<> {
    client other = moved_from(client(test.loop, test.server.address()));
    EXPECT_EQ(co_await error_of(find_services(other)), gyre::io::errc::not_open);
    EXPECT_EQ(co_await error_of(call_service(other, "any", "")), gyre::io::errc::not_open);
    EXPECT_THROW(service(other, {.name = "orders", .version = "1.0.0"}), std::system_error);
  }(*this));
}

// Another client may send what this one refuses to send.
TEST_F(Service, SurvivesReplySubjectsThatAreNone) {
  run([](Service& test) -> task<> {
    gate door;
    service orders = test.make();
    orders.add_endpoint("greet", greet);
    orders.add_endpoint("slow", door.handler(), {.max_concurrent = 1, .max_waiting = 0});
    co_await test.ready();
    auto peer = co_await gyre::net::connect(gyre::net::endpoint(test.server.address()));
    co_await peer.write_all(
        "CONNECT {}\r\nPUB greet a.* 1\r\nx\r\nPUB slow a.> 0\r\n\r\nPUB slow a.> 0\r\n\r\n"
        "PUB $SRV.PING * 0\r\n\r\nPING\r\n");
    gyre::io::buffer answers;
    co_await peer.read_until(answers, "PONG\r\n");
    while (orders.stats().at(1).requests < 2) co_await gyre::sleep_for(0s);
    door.open.set();
    EXPECT_EQ(co_await text_of(call_service(test.caller, "greet", "you")), "hello you");
    EXPECT_EQ(orders.stats().at(1).refused, 1U);
  }(*this));
}

TEST(ServicePermissions, TellsThatASubscriptionIsRefused) {
  gyre::loop loop;
  nats_server server(loop,
                     "authorization { users = [ { user: u, password: p, permissions: {\n"
                     "  subscribe: { allow: [\"_INBOX.>\", \"$SRV.>\"] } } } ] }\n");
  client bus(loop, server.address(), {.user = "u", .password = "p"});
  auto test = [](client& target) -> task<> {
    co_await target.connect();
    service orders(target, {.name = "orders", .version = "1.0.0"});
    orders.add_endpoint("greet", greet);
    EXPECT_EQ(co_await error_of(orders.wait()), errc::permission_denied);
  };
  gyre::sync_wait(loop, gyre::with_timeout(test(bus), 200s));
}

}  // namespace
}  // namespace service_test
