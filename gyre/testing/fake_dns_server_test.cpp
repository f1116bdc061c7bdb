// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/fake_dns_server.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/task.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace fake_dns_server_test {
namespace {

using namespace std::chrono_literals;
using gyre::net::ip_address;
using gyre::net::resolve_errc;
using gyre::testing::fake_dns_server;
using reply_kind = fake_dns_server::reply_kind;
using testing::ElementsAre;

gyre::task<std::size_t> count_addresses(gyre::net::resolver& names, std::string host) {
  const auto found = co_await names.resolve(std::move(host), 80);
  co_return found.size();
}

class FakeDnsServer : public testing::Test {
 protected:
  std::size_t addresses_of(const std::string& host) {
    return gyre::sync_wait(loop_, count_addresses(names_, host));
  }
  std::error_code error_of(const std::string& host) {
    try {
      addresses_of(host);
      return {};
    } catch (const std::system_error& error) {
      return error.code();
    }
  }

  gyre::loop loop_;
  fake_dns_server dns_{loop_};
  gyre::net::resolver names_{loop_,
                             {.servers = {dns_.local_endpoint()},
                              .tries = 1,
                              .order = gyre::net::lookup_order::dns_only,
                              .addresses = gyre::net::address_choice::ipv4_only,
                              .search_domains = std::vector<std::string>{}}};
};

TEST_F(FakeDnsServer, AnswersWithTheAddressesOfAName) {
  dns_["host.test"].addresses = {ip_address("192.0.2.1"), ip_address("192.0.2.2")};
  EXPECT_EQ(addresses_of("host.test"), 2u);
  EXPECT_THAT(dns_.questions(), ElementsAre("A host.test"));
}

TEST_F(FakeDnsServer, AnswersAsTheTestOrders) {
  dns_["none.test"] = {};
  dns_["broken.test"] = {.reply = reply_kind::server_failure};
  dns_["secret.test"] = {.reply = reply_kind::refused};
  EXPECT_EQ(error_of("unknown.test"), resolve_errc::host_not_found);
  EXPECT_EQ(error_of("none.test"), resolve_errc::no_data);
  EXPECT_EQ(error_of("broken.test"), resolve_errc::server_failure);
  EXPECT_EQ(error_of("secret.test"), resolve_errc::refused);
}

TEST_F(FakeDnsServer, ATruncatedAnswerComesAgainByTcp) {
  dns_["large.test"] = {.addresses = {ip_address("192.0.2.1")}, .reply = reply_kind::truncated};
  EXPECT_EQ(addresses_of("large.test"), 1u);
  EXPECT_EQ(dns_.tcp_questions(), 1u);
}

TEST_F(FakeDnsServer, HeldAnswersWaitUntilTheTestReleasesThem) {
  dns_["host.test"].addresses = {ip_address("192.0.2.1")};
  dns_.hold("A ");
  std::size_t found = 0;
  const auto pending = names_.resolve("host.test", 80, [&](const auto& answer) {
    found = answer.value().size();
    loop_.stop();
  });
  while (dns_.held() == 0) loop_.run_once();
  EXPECT_EQ(found, 0u);
  dns_.release();
  loop_.run();
  EXPECT_EQ(found, 1u);
}

TEST_F(FakeDnsServer, IgnoresMessagesWithoutAQuestion) {
  const auto socket =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::datagram);
  const gyre::net::endpoint to = dns_.local_endpoint();
  for (const std::string& message : {std::string("x"), std::string(12, '\0'),
                                     std::string(12, '\0') + '\x3f', std::string(200, '\x01')}) {
    ASSERT_GT(::sendto(socket.fd(), message.data(), message.size(), 0, to.data(), to.size()), 0);
  }
  dns_["host.test"].addresses = {ip_address("192.0.2.1")};
  EXPECT_EQ(addresses_of("host.test"), 1u);
  EXPECT_THAT(dns_.questions(), ElementsAre("A host.test"));
}

}  // namespace
}  // namespace fake_dns_server_test
