// SPDX-License-Identifier: Apache-2.0
// Tests of the resolver, with a fake name server on the loopback interface.
#include <gyre/net/resolver.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/detail/dns_message.hpp>
#include <gyre/net/detail/name_engine.hpp>
#include <gyre/net/udp_server.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/fake_dns_server.hpp>
#include <tests/support/coroutine_sockets.hpp>
#include <tests/support/stubborn_coroutines.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace resolver_test {
namespace {

using namespace std::chrono_literals;
using gyre::net::address_choice;
using gyre::net::address_family;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::lookup;
using gyre::net::lookup_order;
using gyre::net::resolve_errc;
using gyre::net::resolve_result;
using gyre::net::resolver;
using gyre::net::resolver_options;
using gyre::testing::fake_dns_server;
using testing::ElementsAre;
using testing::UnorderedElementsAre;
using reply_kind = fake_dns_server::reply_kind;

const ip_address some_v4("192.0.2.7");
const ip_address some_v6("2001:db8::7");

// A temporary hosts file.
class temporary_file {
 public:
  explicit temporary_file(const std::string& text) {
    const gyre::unique_fd created(::mkstemp(path_.data()));
    write(text);
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() { std::remove(path_.c_str()); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::trunc) << text; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "gyre-hosts-XXXXXX";
};

class Resolver : public testing::Test {
 protected:
  Resolver() {
    server_["both.test"] = {.addresses = {some_v4, some_v6}};
    server_["v4.test"] = {.addresses = {some_v4}};
    server_["v6.test"] = {.addresses = {some_v6}};
    server_["none.test"] = {};
    server_["silent.test"] = {.reply = reply_kind::none};
  }

  // Options with only the fake server, and without a hosts file.
  resolver_options options() const {
    return {.servers = {server_.local_endpoint()},
            .timeout = 20s,
            .hosts_file = {},
            .search_domains = std::vector<std::string>{},
            .cache = {.bytes = 0}};
  }
  resolver& with_cache() {
    auto how = options();
    how.cache = {};
    return make(how);
  }
  resolver& names() {
    if (!names_) names_.emplace(loop_, options());
    return *names_;
  }
  resolver& make(resolver_options how) { return names_.emplace(loop_, std::move(how)); }

  resolve_result find(const std::string& host, gyre::net::service port = 80) {
    return gyre::sync_wait(loop_, gyre::as_expected(names().resolve(host, port)));
  }
  std::error_code error_of(const std::string& host) {
    const auto found = find(host);
    return found ? std::error_code() : found.error();
  }
  auto record() {
    return [this](resolve_result told) { told_.push_back(std::move(told)); };
  }
  void run_until_told(std::size_t count) {
    while (told_.size() < count) loop_.run_once();
  }

  gyre::loop loop_;
  fake_dns_server server_{loop_};
  std::optional<resolver> names_;
  std::vector<resolve_result> told_;
};

MATCHER_P(FailsWith, code, "") { return !arg && arg.error() == code; }

TEST_F(Resolver, GivesAddressesOfBothVersionsAtThePort) {
  const auto found = find("both.test", 443);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT(*found, UnorderedElementsAre(endpoint(some_v4, 443), endpoint(some_v6, 443)));
  EXPECT_THAT(server_.questions(), UnorderedElementsAre("A both.test", "AAAA both.test"));
}

// Pitfall: evpp treated the address of an AAAA record as a sockaddr_in.
TEST_F(Resolver, GivesAnIPv6AddressAsOne) {
  const auto found = find("v6.test", 443);
  ASSERT_TRUE(found) << found.error().message();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().family(), address_family::ipv6);
  EXPECT_EQ(found->front().to_string(), "[2001:db8::7]:443");
  EXPECT_EQ(found->front().size(), sizeof(sockaddr_in6));
}

TEST_F(Resolver, AsksNobodyForNumbersAndTheLocalHost) {
  EXPECT_THAT(*find("192.0.2.1"), ElementsAre(endpoint(ip_address("192.0.2.1"), 80)));
  EXPECT_THAT(*find("fe80::1%lo"), ElementsAre(endpoint(ip_address("fe80::1%lo"), 80)));
  for (const char* name : {"localhost", "LocalHost.", "any.localhost"}) {
    EXPECT_THAT(*find(name), ElementsAre(endpoint(ip_address::loopback_v6(), 80),
                                         endpoint(ip_address::loopback_v4(), 80)));
  }
  EXPECT_EQ(error_of("fe80::1%nosuchdevice"), std::errc::no_such_device);
  EXPECT_TRUE(server_.questions().empty());
}

// Texts that inet_aton(3) reads as addresses are asked of no server.
TEST_F(Resolver, RefusesNumbersThatAreNoAddress) {
  auto how = options();
  how.search_domains = {"test"};
  make(how);
  for (const std::string name :
       {"127.1", "0x7f.1", "017700000001", "2130706433", "0x7f000001", "1.2.3.0x4", "0X",
        "1.2.3.4.5", "127.0.0.1.", "a.1", "256.1.1.1"}) {
    EXPECT_EQ(error_of(name), resolve_errc::numeric_host) << name;
    EXPECT_EQ(error_of(name), std::errc::invalid_argument) << name;
  }
  EXPECT_TRUE(server_.questions().empty());
}

TEST_F(Resolver, NameServersMayHaveScopesAndPorts) {
  EXPECT_THAT(gyre::net::detail::parse_name_servers("# nameserver 192.0.2.9\n"
                                                    "search nowhere.test\n"
                                                    "nameserver 192.0.2.1\n"
                                                    "nameserver\tfe80::1%lo  # a router\n"
                                                    "nameserver [2001:db8::7]:5353\n"
                                                    "nameserver elsewhere.test\n"
                                                    "nameserver\n"
                                                    "nameserver 0.0.0.0"),
              ElementsAre(endpoint("192.0.2.1:53"), endpoint("[fe80::1%lo]:53"),
                          endpoint("[2001:db8::7]:5353"), endpoint("0.0.0.0:53")));
}

// The first link-local address of the machine, with its scope.
std::optional<ip_address> link_local() {
  std::ifstream addresses("/proc/net/if_inet6");
  std::string digits, index, prefix, scope, flags, interface;
  while (addresses >> digits >> index >> prefix >> scope >> flags >> interface) {
    if (!digits.starts_with("fe80")) continue;
    std::string text;
    for (std::size_t i = 0; i < digits.size(); i += 4) text += digits.substr(i, 4) + ':';
    text.back() = '%';
    return ip_address(text + interface);
  }
  return std::nullopt;
}

TEST_F(Resolver, ReachesAServerByItsScope) {
  const std::optional<ip_address> at = link_local();
  if (!at) GTEST_SKIP() << "no interface has a link-local address";
  gyre::net::udp_server server(loop_);
  server.on_datagram([](gyre::net::udp_server::channel& by, std::span<const std::byte> question,
                        const endpoint& from) {
    std::vector<std::byte> answer(question.begin(), question.end());
    answer[2] |= std::byte{0x80};  // it is an answer,
    answer[3] |= std::byte{0x03};  // that there is no such name
    EXPECT_TRUE(by.send_to(answer, from));
  });
  server.listen({*at, 0});
  server.start();
  const temporary_file file("nameserver " + server.local_endpoint().to_string() + "\n");
  auto how = options();
  how.servers = {};
  how.resolv_conf = file.path();
  make(how);
  EXPECT_EQ(error_of("v4.test"), resolve_errc::host_not_found);
}

TEST_F(Resolver, TheWildcardAddressAsAServerIsThisMachine) {
  const std::string port = std::to_string(server_.local_endpoint().port());
  const temporary_file file("nameserver 0.0.0.0:" + port + "\n");
  auto how = options();
  how.servers = {};
  how.resolv_conf = file.path();
  make(how);
  EXPECT_EQ(error_of("v4.test"), std::error_code());
  how.servers = {endpoint(ip_address::any_v4(), server_.local_endpoint().port())};
  make(how);
  EXPECT_EQ(error_of("v4.test"), std::error_code());
}

TEST_F(Resolver, SaysWhyThereIsNoAddress) {
  server_["broken.test"] = {.reply = reply_kind::server_failure};
  server_["secret.test"] = {.reply = reply_kind::refused};
  EXPECT_EQ(error_of("unknown.test"), resolve_errc::host_not_found);
  EXPECT_EQ(error_of("none.test"), resolve_errc::no_data);
  EXPECT_EQ(error_of("broken.test"), resolve_errc::server_failure);
  EXPECT_EQ(error_of("secret.test"), resolve_errc::refused);
  for (const std::string& name :
       {std::string(), std::string("."), std::string("a\0b", 3), std::string("1:2"),
        std::string("a..b"), std::string(64, 'x') + ".test", std::string(300, 'x')}) {
    EXPECT_EQ(error_of(name), resolve_errc::bad_name) << name;
  }
  EXPECT_EQ(error_of("v4.test"), std::error_code()) << "and goes on";
  EXPECT_STREQ(error_of("unknown.test").category().name(), "resolve");
  EXPECT_EQ(error_of("unknown.test").message(), "host not found");
}

TEST_F(Resolver, AsksByTcpForWhatIsTooLongForUdp) {
  std::vector<ip_address> many;
  for (int i = 0; i < 100; ++i)
    many.push_back(ip_address::v4(10, 0, 0, static_cast<std::uint8_t>(i)));
  server_["large.test"] = {.addresses = many, .reply = reply_kind::truncated};
  const auto found = find("large.test");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->size(), 100u);
  EXPECT_GE(server_.tcp_questions(), 1u);
}

volatile std::sig_atomic_t sigpipes_raised = 0;

// Counts the SIGPIPEs of the process, each of which would end the program by default.
class counted_sigpipes {
 public:
  counted_sigpipes() {
    sigpipes_raised = 0;
    struct sigaction counting{};
    counting.sa_handler = [](int) { sigpipes_raised = sigpipes_raised + 1; };
    ::sigaction(SIGPIPE, &counting, &before_);
  }
  counted_sigpipes(const counted_sigpipes&) = delete;
  counted_sigpipes& operator=(const counted_sigpipes&) = delete;
  ~counted_sigpipes() { ::sigaction(SIGPIPE, &before_, nullptr); }

 private:
  struct sigaction before_{};
};

TEST_F(Resolver, SurvivesAServerThatHangsUpOnTcpWithoutSigpipe) {
  const counted_sigpipes counting;
  server_["one.test"] = {.addresses = {some_v4}, .reply = reply_kind::truncated};
  server_["two.test"] = {.addresses = {some_v4}, .reply = reply_kind::truncated};
  const lookup unanswered = names().resolve("silent.test", 80, record());  // keeps c-ares connected
  ASSERT_TRUE(find("one.test"));
  ASSERT_EQ(server_.tcp_connections(), 1u);
  server_.reset_tcp_after_next_answer();
  const auto found = find("two.test");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT(*found, ElementsAre(endpoint(some_v4, 80)));
  EXPECT_EQ(sigpipes_raised, 0);
}

TEST_F(Resolver, IsNotConfusedByGarbage) {
  server_["garbage.test"] = {.addresses = {some_v4}, .reply = reply_kind::malformed};
  EXPECT_EQ(error_of("garbage.test"), resolve_errc::bad_response);
  EXPECT_TRUE(find("v4.test"));
}

TEST_F(Resolver, GivesUpOnAServerThatNeverAnswers) {
  auto how = options();
  how.timeout = 10ms;
  how.tries = 2;
  make(how);
  EXPECT_EQ(error_of("silent.test"), resolve_errc::timed_out);
  EXPECT_EQ(error_of("silent.test"), std::errc::timed_out);
  while (server_.questions().size() < 8) loop_.run_once();  // the last may still be under way
  EXPECT_EQ(server_.questions().size(), 8u) << "A and AAAA, twice for each of two lookups";
}

TEST_F(Resolver, AsksTheNextServerWhenOneFails) {
  fake_dns_server good(loop_);
  good["both.test"] = {.addresses = {some_v4}};
  auto how = options();
  how.servers = {server_.local_endpoint(), good.local_endpoint()};
  for (const reply_kind bad : {reply_kind::none, reply_kind::server_failure, reply_kind::refused}) {
    // Only a silent server is detected by a timeout.
    how.timeout = bad == reply_kind::none ? 1s : 1h;
    server_["both.test"] = {.reply = bad};
    make(how);
    const auto found = find("both.test");
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_THAT(*found, ElementsAre(endpoint(some_v4, 80)));
  }
  good["both.test"] = {.reply = reply_kind::server_failure};
  make(how);
  EXPECT_EQ(error_of("both.test"), resolve_errc::no_server);
}

TEST_F(Resolver, GivesTheAddressesThatAreWantedInTheirOrder) {
  auto how = options();
  const endpoint v4(some_v4, 80);
  const endpoint v6(some_v6, 80);
  how.addresses = address_choice::ipv4_first;
  make(how);
  EXPECT_THAT(*find("both.test"), ElementsAre(v4, v6));
  how.addresses = address_choice::ipv6_first;
  make(how);
  EXPECT_THAT(*find("both.test"), ElementsAre(v6, v4));
  const std::size_t asked = server_.questions().size();
  how.addresses = address_choice::ipv6_only;
  make(how);
  EXPECT_THAT(*find("both.test"), ElementsAre(v6));
  EXPECT_EQ(server_.questions().size(), asked + 1);
  EXPECT_EQ(error_of("192.0.2.1"), resolve_errc::no_data);
  how.addresses = address_choice::ipv4_only;
  make(how);
  EXPECT_THAT(*find("both.test"), ElementsAre(v4));
  EXPECT_EQ(error_of("v6.test"), resolve_errc::no_data);
}

TEST_F(Resolver, KnowsServicesByNumberAndName) {
  EXPECT_EQ(find("192.0.2.1", "8080")->front().port(), 8080);
  EXPECT_EQ(find("192.0.2.1", 0)->front().port(), 0);
  EXPECT_THAT(find("192.0.2.1", "no-such-service"), FailsWith(resolve_errc::service_not_found));
  EXPECT_THAT(find("192.0.2.1", "65536"), FailsWith(resolve_errc::service_not_found));
  if (std::ifstream("/etc/services").good()) {
    EXPECT_EQ(find("192.0.2.1", "https")->front().port(), 443);
  }
}

TEST_F(Resolver, LooksForShortNamesInTheSearchDomains) {
  auto how = options();
  how.search_domains = {"nothing.test", "test"};
  make(how);
  EXPECT_TRUE(find("v4"));
  EXPECT_THAT(find("v4."), FailsWith(resolve_errc::host_not_found)) << "not with a dot at its end";
}

TEST_F(Resolver, RefusesOptionsThatMakeNoSense) {
  const auto refuses = [&](auto change) {
    auto how = options();
    change(how);
    EXPECT_THROW(resolver(loop_, how), std::invalid_argument);
  };
  refuses([](auto& how) { how.tries = 0; });
  refuses([](auto& how) { how.timeout = 0ms; });
  refuses([](auto& how) { how.max_concurrent = 0; });
  refuses([](auto& how) { how.servers = {endpoint::unix_path("/x")}; });
}

// The examples of RFC 6724, section 10.2.
TEST(DestinationOrder, IsThatOfRfc6724) {
  using gyre::net::detail::rank_of;
  const auto address = [](const char* text) -> std::optional<ip_address> {
    if (*text == 0) return std::nullopt;
    return ip_address(text);
  };
  const auto prefers = [&](const char* better, const char* its_source, const char* worse,
                           const char* source_of_that) {
    return rank_of(ip_address(better), address(its_source)) <
           rank_of(ip_address(worse), address(source_of_that));
  };
  EXPECT_TRUE(prefers("2001:db8:1::1", "2001:db8:1::2", "198.51.100.121", "169.254.13.78"));
  EXPECT_TRUE(prefers("198.51.100.121", "198.51.100.117", "2001:db8:1::1", "fe80::1"));
  EXPECT_TRUE(prefers("2001:db8:1::1", "2001:db8:1::2", "10.1.2.3", "10.1.2.4"));
  EXPECT_TRUE(prefers("fe80::1", "fe80::2", "2001:db8:1::1", "2001:db8:1::2"));
  EXPECT_TRUE(prefers("2001:db8:1::1", "2001:db8:1::2", "2002:c633:6401::1", "2002:c633:6401::2"));
  EXPECT_TRUE(prefers("2002:c633:6401::1", "2002:c633:6401::2", "198.51.100.1", "10.0.0.1") ==
              false)
      << "6to4 gives way to IPv4";
  EXPECT_TRUE(prefers("2001:db8:3f44::1", "2001:db8:3f44::2", "2001:db8:1::1", "2001:db8:3f44::2"))
      << "the longer common prefix";
  EXPECT_TRUE(prefers("192.0.2.1", "192.0.2.9", "2001:db8::1", "")) << "there is no way";
  EXPECT_TRUE(prefers("192.0.2.1", "192.0.2.9", "fd00::1", "fd00::2")) << "unique local addresses";
  std::vector<ip_address> loopback = {ip_address::loopback_v4()};
  gyre::net::detail::sort_destinations(loopback);
  EXPECT_THAT(loopback, ElementsAre(ip_address::loopback_v4()));
  EXPECT_EQ(gyre::net::detail::source_for(ip_address::loopback_v4()), ip_address::loopback_v4());
}

TEST(HostsFile, IsReadAsItsManualSays) {
  const auto hosts = gyre::net::detail::parse_hosts(
      "127.0.0.1\tlocalhost Alias # comment\n"
      "::1 localhost\r\n"
      "127.0.0.1 localhost\n"
      "# 192.0.2.9 commented\n"
      "\n  nonsense x\n192.0.2.1\n   192.0.2.2   last.example.");
  EXPECT_EQ(hosts.size(), 3u);
  EXPECT_THAT(hosts.at("localhost"),
              ElementsAre(ip_address::loopback_v4(), ip_address::loopback_v6()));
  EXPECT_THAT(hosts.at("alias"), ElementsAre(ip_address::loopback_v4()));
  EXPECT_THAT(hosts.at("last.example"), ElementsAre(ip_address("192.0.2.2")));
}

TEST_F(Resolver, BelievesTheHostsFileFirst) {
  const temporary_file file("192.0.2.50 v4.test\n2001:db8::50 v4.test\n192.0.2.51 localhost\n");
  auto how = options();
  how.hosts_file = file.path();
  make(how);
  EXPECT_THAT(*find("V4.test."), ElementsAre(endpoint(ip_address("192.0.2.50"), 80),
                                             endpoint(ip_address("2001:db8::50"), 80)));
  EXPECT_EQ(find("localhost")->front().address(), ip_address("192.0.2.51"));
  EXPECT_TRUE(server_.questions().empty());
  EXPECT_TRUE(find("v6.test"));
  file.write("192.0.2.52 v4.test\n");
  EXPECT_EQ(find("v4.test")->front().address(), ip_address("192.0.2.52")) << "it has changed";
  file.write("192.0.2.53 other.test\n");
  EXPECT_EQ(find("v4.test")->front().address(), some_v4);
}

TEST_F(Resolver, AsksTheHostsFileWhenItIsToldTo) {
  const temporary_file file("192.0.2.50 v4.test\n192.0.2.50 unknown.test\n");
  auto how = options();
  how.hosts_file = file.path();
  how.order = lookup_order::dns_then_hosts;
  make(how);
  EXPECT_EQ(find("v4.test")->front().address(), some_v4);
  EXPECT_EQ(find("unknown.test")->front().address(), ip_address("192.0.2.50"));
  how.order = lookup_order::dns_only;
  make(how);
  EXPECT_EQ(error_of("unknown.test"), resolve_errc::host_not_found);
  const std::size_t asked = server_.questions().size();
  how.order = lookup_order::hosts_only;
  make(how);
  EXPECT_TRUE(find("unknown.test"));
  EXPECT_EQ(error_of("v6.test"), resolve_errc::host_not_found);
  EXPECT_EQ(server_.questions().size(), asked);
}

TEST_F(Resolver, AnswersManyAtOnce) {
  constexpr int count = 100;
  std::vector<lookup> lookups;
  for (int i = 0; i < count; ++i) {
    const std::string name = "host" + std::to_string(i) + ".test";
    const auto address = ip_address::v4(10, 0, 0, static_cast<std::uint8_t>(i));
    server_[name] = {.addresses = {address}};
    lookups.push_back(names().resolve(name, 80, [&, address](resolve_result told) {
      EXPECT_THAT(*told, ElementsAre(endpoint(address, 80)));
      told_.push_back(std::move(told));
    }));
  }
  EXPECT_EQ(names().pending(), 100u);
  run_until_told(count);
  EXPECT_EQ(names().pending(), 0u);
}

TEST_F(Resolver, AsksOnceForWhatManyWant) {
  server_.hold();
  std::vector<lookup> lookups;
  for (std::uint16_t port = 1; port <= 20; ++port) {
    lookups.push_back(names().resolve(port % 2 == 0 ? "v4.test" : "V4.TEST", port,
                                      [&, port](resolve_result told) {
                                        EXPECT_EQ(told->front().port(), port);
                                        told_.push_back(std::move(told));
                                      }));
  }
  lookups.pop_back();
  while (server_.held() < 2) loop_.run_once();
  server_.release();
  run_until_told(19);
  EXPECT_EQ(server_.questions().size(), 2u);
}

TEST_F(Resolver, AsksForNoMoreThanItMayAtOnce) {
  auto how = options();
  how.max_concurrent = 2;
  make(how);
  server_.hold();
  std::vector<lookup> lookups;
  for (int i = 0; i < 6; ++i) {
    lookups.push_back(names().resolve("name" + std::to_string(i) + ".test", 80, record()));
  }
  while (server_.held() < 4) loop_.run_once();
  while (loop_.poll()) {
  }
  EXPECT_EQ(server_.held(), 4u) << "A and AAAA of two names";
  EXPECT_TRUE(lookups[5].cancel()) << "that waits";
  lookups[0].cancel();
  lookups[1].cancel();
  while (server_.questions().size() < 8) loop_.run_once();
  server_.release();
  run_until_told(3);
  EXPECT_EQ(server_.questions().size(), 10u);
  EXPECT_THAT(told_, testing::Each(FailsWith(resolve_errc::host_not_found)));
}

TEST_F(Resolver, LookupThatIsCancelledGivesItsPlaceToAnotherAtOnce) {
  auto how = options();
  how.max_concurrent = 2;
  how.timeout = 1h;
  make(how);
  server_["silent2.test"] = {.reply = reply_kind::none};
  lookup kept = names().resolve("silent.test", 80, record());
  lookup cancelled = names().resolve("silent2.test", 80, record());
  const lookup waiting = names().resolve("v4.test", 80, record());
  while (server_.questions().size() < 4) loop_.run_once();
  EXPECT_THAT(server_.questions(), testing::Not(testing::Contains(testing::HasSubstr("v4.test"))));
  cancelled.cancel();
  run_until_told(1);
  EXPECT_THAT(*told_[0], ElementsAre(endpoint(some_v4, 80)));
  EXPECT_EQ(names().abandoned(), 1u);
  EXPECT_TRUE(kept.cancel());
  EXPECT_EQ(names().abandoned(), 0u) << "nobody waits any longer";
}

TEST_F(Resolver, SilenceDoesNotAccumulate) {
  auto how = options();
  how.max_concurrent = 2;
  how.timeout = 1h;
  make(how);
  const lookup kept = names().resolve("silent.test", 80, record());
  for (std::size_t i = 0; i < 50; ++i) {
    const std::string name = "silent" + std::to_string(i) + ".test";
    server_[name] = {.reply = reply_kind::none};
    lookup cancelled = names().resolve(name, 80, record());
    while (server_.questions().size() < 2 * (i + 2)) loop_.run_once();
    EXPECT_TRUE(cancelled.cancel());
    EXPECT_LE(names().abandoned(), 2 * how.max_concurrent);
  }
  const lookup found = names().resolve("v4.test", 80, record());
  run_until_told(1);
  EXPECT_TRUE(told_[0]);
  EXPECT_TRUE(kept.active());
}

// A channel cannot be destroyed while a lookup waits for one of its queries.
TEST_F(Resolver, SilenceHasNoMoreThanEightChannels) {
  constexpr std::size_t max_channels = 8;
  auto how = options();
  how.max_concurrent = 16;
  how.timeout = 1h;
  make(how);
  std::size_t asked = 0;
  const auto ask_silence = [&] {
    const std::string name = "silent" + std::to_string(asked) + ".test";
    server_[name] = {.reply = reply_kind::none};
    lookup begun = names().resolve(name, 80, record());
    ++asked;
    while (server_.questions().size() < 2 * asked) loop_.run_once();
    return begun;
  };
  std::vector<lookup> kept;
  for (std::size_t channel = 0; channel < max_channels; ++channel) {
    kept.push_back(ask_silence());
    for (std::size_t i = 0; i < how.max_concurrent; ++i) EXPECT_TRUE(ask_silence().cancel());
  }
  EXPECT_EQ(names().abandoned(), max_channels * how.max_concurrent);
  const lookup next = names().resolve("v4.test", 80, record());
  while (loop_.poll()) {
  }
  EXPECT_EQ(server_.questions().size(), 2 * asked) << "more than may be abandoned";
  EXPECT_TRUE(next.active());
  EXPECT_TRUE(kept.front().cancel()) << "with which the first channel ends";
  run_until_told(1);
  EXPECT_TRUE(told_[0]);
  EXPECT_EQ(names().abandoned(), (max_channels - 1) * how.max_concurrent);
}

TEST_F(Resolver, KeepsAnswersForAsLongAsTheyAllow) {
  with_cache();
  const auto first = find("both.test", 1);
  EXPECT_EQ(server_.questions().size(), 2u);
  const auto second = find("Both.Test.", 2);
  EXPECT_EQ(server_.questions().size(), 2u);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->front().address(), second->front().address());
  EXPECT_EQ(second->front().port(), 2);
  EXPECT_EQ(names().cache_metrics().hits, 1u);
  EXPECT_EQ(names().cache_metrics().misses, 1u);
  EXPECT_EQ(names().cache_metrics().entries, 2u);
  names().clear_cache();
  EXPECT_EQ(names().cache_metrics().bytes, 0u);
  EXPECT_TRUE(find("both.test"));
  EXPECT_EQ(server_.questions().size(), 4u);
}

TEST_F(Resolver, DoesNotKeepWhatMayNotBeKept) {
  with_cache();
  server_["both.test"].ttl = 0;
  server_["broken.test"] = {.reply = reply_kind::server_failure};
  for (const char* name : {"both.test", "broken.test", "none.test", "unknown.test"}) {
    const std::size_t asked = server_.questions().size();
    static_cast<void>(find(name));
    static_cast<void>(find(name));
    EXPECT_EQ(server_.questions().size(), asked + 4) << name;
  }
  EXPECT_EQ(names().cache_metrics().entries, 0u);
}

TEST_F(Resolver, KeepsThatThereIsNoSuchNameOrAddress) {
  with_cache();
  server_["v6.test"].negative_ttl = 60;
  server_["gone.test"] = {.negative_ttl = 60, .exists = false};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of("gone.test"), resolve_errc::host_not_found);
    EXPECT_THAT(*find("v6.test"), ElementsAre(endpoint(some_v6, 80)));
  }
  EXPECT_EQ(server_.questions().size(), 4u);
}

TEST_F(Resolver, GivesTheServersOfAServiceInTheirOrder) {
  with_cache();
  server_["_x._tcp.test"] = {.records = {fake_dns_server::srv(20, 0, 3, "third.test"),
                                         fake_dns_server::srv(10, 1, 2, "Second.test"),
                                         fake_dns_server::srv(5, 0, 1, "first.test")}};
  server_["_none._tcp.test"] = {.records = {fake_dns_server::srv(0, 0, 0, "")}};
  const auto found = gyre::sync_wait(loop_, names().resolve_srv("_x._TCP.test"));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].target, "first.test");
  EXPECT_EQ(found[0].port, 1);
  EXPECT_EQ(found[1].target, "Second.test");
  EXPECT_EQ(found[1].weight, 1);
  EXPECT_EQ(found[2].target, "third.test");
  EXPECT_EQ(found[2].priority, 20);
  EXPECT_EQ(gyre::sync_wait(loop_, names().resolve_srv("_x._tcp.test")).size(), 3u);
  EXPECT_THAT(server_.questions(), ElementsAre("SRV _x._tcp.test")) << "and keeps them";
  const auto error_of_srv = [&](const char* name) {
    return gyre::sync_wait(loop_, gyre::as_expected(names().resolve_srv(name))).error();
  };
  EXPECT_EQ(error_of_srv("_none._tcp.test"), resolve_errc::no_data) << "decidedly not available";
  EXPECT_EQ(error_of_srv("v4.test"), resolve_errc::no_data);
  EXPECT_EQ(error_of_srv("unknown.test"), resolve_errc::host_not_found);
  EXPECT_EQ(error_of_srv(""), resolve_errc::bad_name);
  EXPECT_THROW(gyre::sync_wait(loop_, names().resolve_srv("unknown.test")), std::system_error);
}

TEST(SrvRecords, RecordsWithOnePriorityAreDrawnByTheirWeight) {
  std::vector<std::uint32_t> draws, bounds;
  const auto sorted = [&](std::vector<std::uint32_t> drawn) {
    std::vector<gyre::net::srv_record> records = {{.target = "a", .priority = 1, .weight = 10},
                                                  {.target = "b", .priority = 1, .weight = 30},
                                                  {.target = "c", .priority = 1, .weight = 0},
                                                  {.target = "d", .priority = 0, .weight = 7}};
    draws = std::move(drawn);
    bounds.clear();
    gyre::net::detail::sort_srv_records(records, [&](std::uint32_t bound) {
      bounds.push_back(bound);
      return draws.at(bounds.size() - 1);
    });
    std::string order;
    for (const auto& each : records) order += each.target;
    return order;
  };
  EXPECT_EQ(sorted({7, 0, 1, 1}), "dcab");
  EXPECT_THAT(bounds, ElementsAre(8u, 41u, 41u, 31u)) << "sums of the weights that are left";
  EXPECT_EQ(sorted({0, 10, 0, 0}), "dacb");
  EXPECT_EQ(sorted({0, 11, 10, 0}), "dbac");
  EXPECT_EQ(sorted({0, 40, 1, 0}), "dbac");
}

TEST_F(Resolver, GivesTextsAndNamesOfAddresses) {
  server_["v4.test"].records = {fake_dns_server::txt({"v=spf1 ", "-all"}),
                                fake_dns_server::txt({std::string("\0x", 2)})};
  server_["7.2.0.192.in-addr.arpa"] = {.records = {fake_dns_server::ptr("v4.test")}};
  server_["7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"] = {
      .records = {fake_dns_server::ptr("v6.test"), fake_dns_server::ptr("also.test")}};
  EXPECT_THAT(gyre::sync_wait(loop_, names().resolve_txt("v4.test")),
              ElementsAre("v=spf1 -all", std::string("\0x", 2)));
  EXPECT_THAT(gyre::sync_wait(loop_, names().resolve_ptr(some_v4)), ElementsAre("v4.test"));
  EXPECT_THAT(gyre::sync_wait(loop_, names().resolve_ptr(some_v6)),
              ElementsAre("v6.test", "also.test"));
}

TEST_F(Resolver, TellsCallbacksOfRecords) {
  server_["v4.test"].records = {fake_dns_server::txt({"text"}),
                                fake_dns_server::srv(0, 0, 80, "v4.test")};
  int told = 0;
  const auto text = [&](const gyre::net::text_result& found) {
    ASSERT_TRUE(found);
    EXPECT_THAT(*found, ElementsAre("text"));
    ++told;
  };
  const lookup kept = names().resolve_txt("v4.test", text);
  names().resolve_txt("v4.test", text).detach();
  names()
      .resolve_srv("v4.test",
                   [&](const gyre::net::srv_result& found) {
                     ASSERT_TRUE(found);
                     EXPECT_EQ(found->front().port, 80);
                     ++told;
                   })
      .detach();
  names()
      .resolve_ptr(some_v4,
                   [&](const gyre::net::text_result& found) {
                     EXPECT_THAT(found, FailsWith(resolve_errc::host_not_found));
                     ++told;
                   })
      .detach();
  EXPECT_EQ(names().resolve_txt("v4.test", text).cancel(), true);
  while (told < 4) loop_.run_once();
  EXPECT_FALSE(kept.active());
  EXPECT_EQ(server_.questions().size(), 3u) << "the same question is asked once";
}

TEST_F(Resolver, ReadsResolvConfAgainWhenItHasChanged) {
  const temporary_file file("nameserver 127.0.0.1\nsearch nowhere.test\n");
  auto how = options();
  how.search_domains = std::nullopt;
  how.resolv_conf = file.path();
  how.cache = {};
  make(how);
  server_["v4.nowhere.test"] = {.negative_ttl = 60, .exists = false};
  server_["silent.nowhere.test"] = {.reply = reply_kind::none};
  const lookup before = names().resolve("silent", 80, record());
  EXPECT_EQ(error_of("v4"), resolve_errc::host_not_found);
  file.write("nameserver 127.0.0.1\nsearch test\n");
  EXPECT_THAT(find("v4"), testing::Truly([](const resolve_result& found) {
                return found && found->front().address() == some_v4;
              }));
  EXPECT_TRUE(before.active()) << "it is left to the servers of before";
  std::remove(file.path().c_str());
  EXPECT_EQ(error_of("v6"), resolve_errc::host_not_found) << "and without one";
}

TEST_F(Resolver, AsksForThePartThatItDoesNotKnow) {
  with_cache();
  static_cast<void>(find("v4.test"));
  EXPECT_TRUE(find("v4.test"));
  EXPECT_THAT(server_.questions(), ElementsAre("AAAA v4.test", "A v4.test", "AAAA v4.test"));
}

TEST_F(Resolver, NeverTellsBeforeResolveReturns) {
  std::vector<lookup> lookups;
  for (const char* name : {"192.0.2.1", "localhost", "", "a..b", "v4.test"}) {
    lookups.push_back(names().resolve(name, 80, record()));
    EXPECT_TRUE(told_.empty()) << name;
    EXPECT_TRUE(lookups.back().active());
  }
  run_until_told(5);
  for (const lookup& each : lookups) EXPECT_FALSE(each.active());
}

TEST_F(Resolver, DoesNotTellWhatWasCancelled) {
  auto used = std::make_shared<int>(0);
  for (const char* name : {"192.0.2.1", "v4.test", "silent.test"}) {
    lookup begun = names().resolve(name, 80, [used](const resolve_result&) { ++*used; });
    EXPECT_TRUE(begun.cancel());
    EXPECT_EQ(used.use_count(), 1) << "the callback is gone";
    EXPECT_FALSE(begun.cancel());
    begun = names().resolve(name, 80, [used](const resolve_result&) { ++*used; });
  }
  EXPECT_EQ(names().pending(), 0u) << "a lookup's end cancels it";
  names().resolve("v6.test", 80, record()).detach();
  run_until_told(1);
  EXPECT_EQ(*used, 0);
}

TEST_F(Resolver, LeavesNothingBehindWhenTheLastIsCancelled) {
  const auto before = loop_.metrics();
  lookup one = names().resolve("silent.test", 80, record());
  lookup other = names().resolve("silent2.test", 80, record());
  EXPECT_GT(loop_.metrics().descriptors_watched, before.descriptors_watched);
  EXPECT_EQ(loop_.metrics().timers_pending, 1u);
  one.cancel();
  EXPECT_EQ(loop_.metrics().timers_pending, 1u);
  other.cancel();
  EXPECT_EQ(loop_.metrics().descriptors_watched, before.descriptors_watched);
  EXPECT_EQ(loop_.metrics().timers_pending, 0u);
  EXPECT_TRUE(find("v4.test"));
  EXPECT_EQ(loop_.metrics().descriptors_watched, before.descriptors_watched);
}

TEST_F(Resolver, TellsAllWhenItIsDestroyedOnce) {
  auto how = options();
  how.max_concurrent = 1;
  make(how);
  server_.hold();
  std::vector<lookup> lookups;
  for (const char* name : {"v4.test", "v6.test", "v6.test", "silent.test"}) {
    lookups.push_back(names().resolve(name, 80, record()));
  }
  names().resolve("both.test", 80, record()).detach();
  names_.reset();
  EXPECT_THAT(told_, testing::Each(FailsWith(std::errc::operation_canceled)));
  EXPECT_THAT(told_, testing::Each(FailsWith(resolve_errc::resolver_destroyed)));
  EXPECT_EQ(told_.size(), 5u);
  for (lookup& each : lookups) EXPECT_FALSE(each.cancel());
  EXPECT_EQ(loop_.metrics().timers_pending, 0u);
}

TEST_F(Resolver, MayBeDestroyedByACallback) {
  names();
  server_.hold();
  std::vector<lookup> lookups;
  int destroyed = 0;
  for (const char* name : {"v4.test", "v4.test", "silent.test", "v4.test"}) {
    lookups.push_back(names().resolve(name, 80, [&](resolve_result told) {
      const bool first = told_.empty();
      told_.push_back(std::move(told));
      if (first) {
        names_.reset();
        lookups.clear();
        ++destroyed;
      }
    }));
  }
  while (server_.held() < 2) loop_.run_once();
  server_.release();
  run_until_told(4);
  EXPECT_EQ(destroyed, 1);
  EXPECT_TRUE(told_[0]);
  EXPECT_TRUE(told_[1]) << "it had its answer";
  EXPECT_EQ(std::ranges::count_if(told_, [](const auto& each) { return each.has_value(); }), 3);
  EXPECT_EQ(loop_.metrics().timers_pending, 0u);
}

TEST_F(Resolver, BeginsAndEndsOtherLookupsInACallback) {
  server_.hold();
  lookup second;
  lookup third = names().resolve("v4.test", 80, record());
  lookup first = names().resolve("v6.test", 80, [&](const resolve_result&) {
    third.cancel();
    second = names().resolve("192.0.2.1", 80, record());
    EXPECT_TRUE(told_.empty());
  });
  third.cancel();
  third = names().resolve("v6.test", 81, record());
  while (server_.held() < 2) loop_.run_once();
  server_.release();
  run_until_told(1);
  EXPECT_EQ(told_.front()->front().address(), ip_address("192.0.2.1"));
  EXPECT_EQ(names().pending(), 0u);
}

TEST(ResolverException, TheLoopReceivesItFromACallbackAndTheOtherCallbacksRun) {
  int thrown = 0;
  gyre::loop loop({.on_exception = [&](const std::exception_ptr&) { ++thrown; }});
  resolver names(loop, {.hosts_file = {}});
  std::vector<lookup> lookups;
  int told = 0;
  for (int i = 0; i < 3; ++i) {
    lookups.push_back(names.resolve("192.0.2.1", 80, [&](const resolve_result&) {
      ++told;
      throw std::runtime_error("by the callback");
    }));
  }
  while (told < 3) loop.run_once();
  EXPECT_EQ(thrown, 3);
}

TEST_F(Resolver, ThrowsInACoroutineWhatFailed) {
  try {
    gyre::sync_wait(loop_, names().resolve("unknown.test", 80));
    ADD_FAILURE() << "found";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), resolve_errc::host_not_found);
    EXPECT_STREQ(error.what(), "resolve unknown.test: host not found");
  }
  EXPECT_EQ(gyre::sync_wait(loop_, names().resolve("v4.test", 80)).size(), 1u);
}

TEST_F(Resolver, EndsACoroutineThatIsAskedToStop) {
  gyre::inplace_stop_source source;
  std::jthread stopper;
  names();
  loop_.post([&] { stopper = std::jthread([&] { source.request_stop(); }); });
  const auto resolve = [](resolver& with, const char* host) -> gyre::task<> {
    static_cast<void>(co_await with.resolve(host, 80));
  };
  EXPECT_EQ(gyre::test::error_of(loop_, resolve(names(), "silent.test"), source.get_token()),
            std::errc::operation_canceled);
  EXPECT_EQ(gyre::test::error_of(loop_, resolve(names(), "192.0.2.1"), source.get_token()),
            std::errc::operation_canceled)
      << "was stopped before";
  EXPECT_EQ(names().pending(), 0u);
}

TEST_F(Resolver, ThatIsStoppedEndsALoopThatLogsErrors) {
  gyre::inplace_stop_source source;
  const std::vector<std::function<gyre::task<>()>> waits{
      [this]() -> gyre::task<> { co_await names().resolve("silent.test", 80); },
      [this]() -> gyre::task<> { co_await names().resolve_txt("silent.test"); },
  };
  names();
  loop_.post([&] { source.request_stop(); });
  for (const auto& each : waits) {
    int errors = 0;
    EXPECT_EQ(gyre::test::error_of(loop_, gyre::test::log_errors(each, errors), source.get_token()),
              std::errc::operation_canceled);
    EXPECT_EQ(errors, 0);
  }
  EXPECT_EQ(names().pending(), 0u);
}

TEST_F(Resolver, RacesItsAnswerWithTheStopOfAnotherThread) {
  for (int round = 0; round < 100; ++round) {
    gyre::inplace_stop_source source;
    std::jthread stopper([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 3));
      source.request_stop();
    });
    const auto resolve = [](resolver& with) -> gyre::task<> {
      static_cast<void>(co_await with.resolve("v4.test", 80));
    };
    const std::error_code error = gyre::test::error_of(loop_, resolve(names()), source.get_token());
    EXPECT_TRUE(!error || error == std::errc::operation_canceled) << error.message();
  }
  EXPECT_EQ(names().pending(), 0u);
}

TEST_F(Resolver, KeepsToATimeLimit) {
  const auto late = gyre::sync_wait(
      loop_, gyre::as_expected(gyre::with_timeout(names().resolve("silent.test", 80), 5ms)));
  EXPECT_THAT(late, FailsWith(std::errc::timed_out));
  EXPECT_TRUE(gyre::sync_wait(
      loop_, gyre::as_expected(gyre::with_timeout(names().resolve("v4.test", 80), 20s))));
}

gyre::task<> expect_cancelled(resolver& names, bool& ended) {
  auto asking = gyre::as_expected(names.resolve("silent.test", 80));
  const resolve_result found = co_await std::move(asking);
  EXPECT_THAT(found, FailsWith(std::errc::operation_canceled));
  ended = true;
}

TEST_F(Resolver, EndsACoroutineWhenItIsDestroyed) {
  bool ended = false;
  gyre::spawn(loop_, expect_cancelled(names(), ended));
  while (names().pending() == 0) loop_.run_once();
  names_.reset();
  while (!ended) loop_.run_once();
}

// A coroutine that the owner of its handle destroys.
struct held_coroutine {
  struct promise_type {
    held_coroutine get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

held_coroutine never_resumed(resolver& names) {
  auto asking = names.resolve("silent.test", 80);
  co_await std::move(asking);
  ADD_FAILURE() << "resumed";
}

TEST_F(Resolver, ForgetsACoroutineThatIsDestroyed) {
  const held_coroutine waiting = never_resumed(names());
  while (names().pending() == 0) loop_.run_once();
  waiting.handle.destroy();
  EXPECT_EQ(names().pending(), 0u);
  EXPECT_EQ(loop_.metrics().timers_pending, 0u);
}

gyre::task<int> resolve_often(resolver& names, gyre::executor& home, int times) {
  int found = 0;
  for (int i = 0; i < times; ++i) {
    const std::string name = i % 3 == 0 ? "192.0.2.1" : "v4.test";
    auto asking = names.resolve(name, 80);
    const auto endpoints = co_await std::move(asking);
    EXPECT_TRUE(home.running_here());
    found += static_cast<int>(endpoints.size());
  }
  co_return found;
}

// The loop has a thread of its own; the coroutines run on other threads.
TEST(ResolverOfAnotherThread, ServesCoroutinesOnAPool) {
  gyre::loop_thread network;
  std::optional<fake_dns_server> server;
  std::optional<resolver> names;
  std::promise<void> ready;
  network.loop().post([&] {
    server.emplace(network.loop());
    (*server)["v4.test"] = {.addresses = {some_v4}};
    names.emplace(
        network.loop(),
        resolver_options{.servers = {server->local_endpoint()}, .timeout = 20s, .hosts_file = {}});
    ready.set_value();
  });
  ready.get_future().wait();
  {
    gyre::thread_pool pool(2);
    std::vector<std::future<int>> found;
    for (int i = 0; i < 4; ++i) {
      found.push_back(gyre::spawn_future(pool, resolve_often(*names, pool, 25)));
    }
    for (auto& each : found) EXPECT_EQ(each.get(), 25);
    gyre::inplace_stop_source source;
    auto silent =
        gyre::spawn_future(pool, names->resolve("v4.test.example", 80), source.get_token());
    source.request_stop();
    EXPECT_THROW(silent.get(), std::system_error);
  }
  std::promise<void> gone;
  network.loop().post([&] {
    names.reset();
    server.reset();
    gone.set_value();
  });
  gone.get_future().wait();
}

TEST_F(Resolver, GoesOnInAForkedChildThatFoundItIdle) {
  names();
  EXPECT_TRUE(find("v4.test"));
  const pid_t child = ::fork();
  if (child == 0) {
    loop_.after_fork_in_child();
    ::_exit(error_of("localhost") == std::error_code() && names().pending() == 0 ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(find("v6.test"));
}

}  // namespace
}  // namespace resolver_test
