// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/server_pool.hpp>

#include <gyre/engines/nats/detail/slot_table.hpp>
#include <gyre/engines/nats/detail/subject.hpp>
#include <gyre/engines/nats/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace nats_server_pool_test {
namespace {

using gyre::nats::errc;
using gyre::nats::detail::check_pattern;
using gyre::nats::detail::check_queue_group;
using gyre::nats::detail::check_subject;
using gyre::nats::detail::server_address;
using gyre::nats::detail::server_pool;
using gyre::nats::detail::slot_table;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr std::size_t max_servers = 8;

server_pool pool_of(const std::vector<std::string>& servers, bool must_shuffle = false) {
  return {server_address::parse_all(servers), must_shuffle, max_servers, 1};
}

// The next servers, one for each that is known.
std::vector<std::string> round_of(server_pool& pool) {
  std::vector<std::string> servers;
  for (std::size_t each = 0; each < pool.size(); ++each) {
    servers.push_back(pool.next().address.server.to_string());
  }
  return servers;
}

TEST(NatsServerAddress, ReadsWhatPeopleType) {
  const auto text_of = [](std::string_view text) {
    const server_address read = server_address::parse(text);
    return read.server.to_string() + ' ' + read.user + ' ' + read.password + ' ' + read.token +
           (read.demands_tls ? " tls" : "");
  };
  EXPECT_EQ(text_of("example.org"), "example.org:4222   ");
  EXPECT_EQ(text_of("nats://example.org"), "example.org:4222   ");
  EXPECT_EQ(text_of("NATS://example.org:1/"), "example.org:1   ");
  EXPECT_EQ(text_of("tls://me:p%40%3A@127.0.0.1:1"), "127.0.0.1:1 me p@:  tls");
  EXPECT_EQ(text_of("token@[::1]"), "[::1]:4222   token");
  EXPECT_EQ(text_of("[::1]:7"), "[::1]:7   ");
  EXPECT_EQ(text_of("a:b%zz%@h"), "h:4222 a b%zz% ");
  EXPECT_EQ(server_address::parse("[::1]:7").host(), "::1");
  EXPECT_EQ(server_address::parse("127.0.0.1").host(), "127.0.0.1");
  EXPECT_EQ(server_address::parse("example.org").host(), "example.org");
}

TEST(NatsServerAddress, RefusesOthersWithoutTheirPasswords) {
  for (const char* text : {"http://user:secret@host", "nats://user:secret@", "nats://", "",
                           "user:secret@bad host", "ws://user:secret@host", "secret@h:port:1"}) {
    try {
      server_address::parse(text);
      ADD_FAILURE() << text;
    } catch (const std::system_error& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("secret"))) << text;
    }
  }
  EXPECT_THROW(server_address::parse_all({}), std::invalid_argument);
  EXPECT_THROW(server_address::parse_all({" , "}), std::invalid_argument);
  EXPECT_EQ(server_address::parse_all({"a, b", "c"}).size(), 3U);
}

TEST(NatsServerPool, TriesServersInTurn) {
  server_pool pool = pool_of({"a", "b", "c"});
  EXPECT_THAT(round_of(pool), ElementsAre("a:4222", "b:4222", "c:4222"));
  EXPECT_EQ(pool.next().address.server.to_string(), "a:4222");
  EXPECT_EQ(pool.current().address.server.to_string(), "a:4222");
}

TEST(NatsServerPool, ShufflesServers) {
  std::set<std::string> first;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    server_pool pool(server_address::parse_all({"a", "b", "c"}), true, max_servers, seed);
    first.insert(pool.next().address.server.to_string());
  }
  EXPECT_EQ(first.size(), 3U);
}

TEST(NatsServerPool, FollowsTheCluster) {
  server_pool pool = pool_of({"a", "b"});
  pool.next();
  pool.next();  // b
  pool.discover({"a:4222", "c:4222", "not a server", "d:4222", "c:4222"}, true);
  EXPECT_EQ(pool.current().address.server.to_string(), "b:4222");
  EXPECT_EQ(pool.size(), 4U);
  EXPECT_THAT(round_of(pool), UnorderedElementsAre("a:4222", "b:4222", "c:4222", "d:4222"));
  while (pool.next().address.server.to_string() != "c:4222") continue;
  // The current server stays, even if it is gone; the servers of the program always do.
  pool.discover({"e:4222"}, true);
  EXPECT_EQ(pool.current().address.server.to_string(), "c:4222");
  EXPECT_THAT(round_of(pool), UnorderedElementsAre("a:4222", "b:4222", "c:4222", "e:4222"));
}

TEST(NatsServerPool, LimitsTheServers) {
  server_pool pool = pool_of({"a"}, true);
  std::vector<std::string> many;
  for (int each = 0; each < 100; ++each) many.push_back("h" + std::to_string(each) + ":1");
  pool.discover(many, true);
  EXPECT_EQ(pool.size(), max_servers);
}

TEST(NatsServerPool, PassesTheLoginOn) {
  server_pool pool = pool_of({"tls://me:secret@seed.example"});
  pool.next();
  pool.discover({"10.0.0.1:4222", "other.example:4222"}, true);
  const server_pool::entry& address = pool.next();
  EXPECT_EQ(address.address.user, "me");
  EXPECT_EQ(address.address.password, "secret");
  EXPECT_TRUE(address.address.demands_tls);
  EXPECT_EQ(address.certificate_name, "seed.example");
  EXPECT_EQ(pool.next().certificate_name, "");
}

TEST(NatsServerPool, TrustsNoNamesThatCameUnencrypted) {
  server_pool pool = pool_of({"seed.example"});
  pool.next();
  pool.discover({"evil.example:4222"}, false);
  EXPECT_EQ(pool.next().certificate_name, "seed.example");
  pool.discover({"evil.example:4222", "10.0.0.1:4222"}, false);
  EXPECT_EQ(pool.next().certificate_name, "");  // the seed itself
  EXPECT_EQ(pool.next().certificate_name, "seed.example");
}

TEST(NatsSubject, FollowsTheRules) {
  const auto refuses = [](auto check, std::string_view text) {
    try {
      check(text);
    } catch (const std::system_error& error) {
      return error.code() == errc::bad_subject;
    }
    return false;
  };
  for (const char* text : {"a", "a.b", "a.*b", "a>.b", "$SYS.x", "\xc3\xa4.b"}) {
    EXPECT_FALSE(refuses(check_subject, text)) << text;
    EXPECT_FALSE(refuses(check_pattern, text)) << text;
  }
  for (const char* text : {"*", "a.*", "*.b", ">", "a.>"}) {
    EXPECT_TRUE(refuses(check_subject, text)) << text;
    EXPECT_FALSE(refuses(check_pattern, text)) << text;
  }
  for (const char* text :
       {"", ".", "a.", ".a", "a..b", "a b", "a\tb", "a\r\nPUB b", "a\x7f", ">.a"}) {
    EXPECT_TRUE(refuses(check_subject, text)) << text;
    EXPECT_TRUE(refuses(check_pattern, text)) << text;
  }
  EXPECT_TRUE(refuses(check_subject, std::string_view("a\0b", 3)));
  EXPECT_TRUE(refuses(check_subject, std::string(5000, 'a')));
  EXPECT_FALSE(refuses(check_queue_group, "workers.*"));
  EXPECT_TRUE(refuses(check_queue_group, "a b"));
}

TEST(NatsSlotTable, NeverUsesAKeyAgain) {
  slot_table<int> table;
  std::array<int, 3> objects{};
  std::set<std::uint64_t> keys;
  for (int round = 0; round < 1000; ++round) {
    std::array<std::uint64_t, 3> now{};
    for (std::size_t each = 0; each < objects.size(); ++each) {
      now[each] = table.insert(objects[each]);
      EXPECT_TRUE(keys.insert(now[each]).second);
      EXPECT_EQ(table.find(now[each]), &objects[each]);
    }
    EXPECT_EQ(table.size(), 3U);
    for (const std::uint64_t key : now) {
      table.erase(key);
      table.erase(key);
      EXPECT_EQ(table.find(key), nullptr);
    }
  }
  EXPECT_EQ(table.size(), 0U);
  for (const std::uint64_t key : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    EXPECT_EQ(table.find(key), nullptr);
  }
}

}  // namespace
}  // namespace nats_server_pool_test
