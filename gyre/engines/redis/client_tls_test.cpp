// SPDX-License-Identifier: Apache-2.0
// The client of Redis over TLS.
#include <gyre/engines/redis/client.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/passed_sockets.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/redis_server.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace redis_client_tls_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::redis::client;
using gyre::redis::client_options;
using gyre::redis::errc;
using gyre::test::redis_server;
using gyre::test::calls::error_of;
using gyre::tls::tls_context;
using gyre::tls::test::authority;
using gyre::tls::test::trusting;

// A port that was free a moment ago. Redis cannot choose one itself.
std::uint16_t recently_free_port() {
  const gyre::net::endpoint any(gyre::net::ip_address::loopback_v4(), 0);
  return gyre::net::listening_socket(any).local_endpoint().port();
}

struct RedisTls : testing::Test {
  RedisTls() {
    const auto own = authority().issue();
    const std::vector<std::string> settings = {
        "--bind",
        "127.0.0.1",
        "--tls-cert-file",
        folder.make_file("own.pem", own.certificate),
        "--tls-key-file",
        folder.make_file("own.key", own.key),
        "--tls-ca-cert-file",
        folder.make_file("ca.pem", authority().certificate()),
        "--tls-auth-clients",
        "no",
        "--tls-port"};
    for (int attempts = 20; server == nullptr; --attempts) {
      port = recently_free_port();
      std::vector<std::string> all = settings;
      all.push_back(std::to_string(port));
      try {
        server = std::make_unique<redis_server>(loop, all);
      } catch (const std::runtime_error&) {
        if (attempts == 1) throw;  // else the port was taken meanwhile
      }
    }
  }

  client connect(const client_options& options) {
    return client(loop, "127.0.0.1:" + std::to_string(port), options);
  }

  gyre::loop loop;
  gyre::test::temporary_folder folder;
  std::uint16_t port = 0;
  std::unique_ptr<redis_server> server;
};

TEST_F(RedisTls, EncryptsCommandsAndReplies) {
  gyre::sync_wait(loop, [](RedisTls& test) -> task<> {
    client cache = test.connect({.tls = tls_context::client(trusting())});
    const std::string value(1'000'000, 'x');
    co_await cache.call<void>("SET", "a", value);
    std::vector<task<std::string>> all;
    for (int each = 0; each < 10; ++each) all.push_back(cache.call<std::string>("GET", "a"));
    for (const std::string& each : co_await gyre::when_all(std::move(all))) EXPECT_EQ(each, value);
    auto news = co_await cache.subscribe("news");
    EXPECT_EQ(co_await cache.call<int>("PUBLISH", "news", "x"), 1);
    EXPECT_EQ(cache.metrics().connections, 1U);
    auto session = co_await cache.open_session();
    EXPECT_EQ(co_await session.call<int>("STRLEN", "a"), 1'000'000);
  }(*this));
}

TEST_F(RedisTls, FailsCallsInFlightWhenTheServerIsKilled) {
  gyre::sync_wait(loop, [](RedisTls& test) -> task<> {
    client cache = test.connect({.tls = tls_context::client(trusting())});
    EXPECT_EQ(co_await cache.call<std::string>("PING"), "PONG");
    test.server->pause();
    auto kill = [](redis_server& process, client& target) -> task<> {
      while (target.metrics().in_flight == 0) co_await gyre::yield();
      co_await gyre::sleep_for(1ms);  // until the output of the present turn was sent
      co_await process.kill();
    };
    auto both = gyre::when_all(error_of(cache.call<void>("INCR", "a")), kill(*test.server, cache));
    const auto [error, killed] = co_await std::move(both);
    EXPECT_EQ(error, errc::connection_lost);
  }(*this));
}

TEST_F(RedisTls, RefusesAServerOfAnotherAuthority) {
  gyre::sync_wait(loop, [](RedisTls& test) -> task<> {
    const gyre::test::test_authority other;
    client cache = test.connect(
        {.tls = tls_context::client({.system_authorities = false,
                                     .authorities = {gyre::tls::pem::text(other.certificate())}}),
         .max_connect_attempts = 1});
    const std::error_code error = co_await error_of(cache.call<void>("PING"));
    EXPECT_EQ(error.category(), make_error_code(gyre::tls::errc::truncated).category()) << error;
    EXPECT_EQ(cache.metrics().connections, 0U);
  }(*this));
}

TEST_F(RedisTls, FailsWithoutTls) {
  gyre::sync_wait(loop, [](RedisTls& test) -> task<> {
    client cache = test.connect({.max_connect_attempts = 1});
    EXPECT_EQ(co_await error_of(cache.call<void>("PING")), errc::connection_lost);
  }(*this));
}

}  // namespace
}  // namespace redis_client_tls_test
