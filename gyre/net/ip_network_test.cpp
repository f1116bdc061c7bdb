// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/ip_network.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace ip_network_test {
namespace {

using gyre::net::ip_address;
using gyre::net::ip_network;

TEST(IpNetwork, ContainsTheAddressesThatShareItsPrefix) {
  const ip_network network = "10.16.0.0/12";
  for (const std::string_view inside : {"10.16.0.0", "10.31.255.255", "::ffff:10.20.30.40"}) {
    EXPECT_TRUE(network.contains(ip_address(inside))) << inside;
  }
  for (const std::string_view outside : {"10.15.255.255", "10.32.0.0", "11.16.0.0", "::a10:0"}) {
    EXPECT_FALSE(network.contains(ip_address(outside))) << outside;
  }
  const ip_network wide = "2001:db8::/33";
  EXPECT_TRUE(wide.contains(ip_address("2001:db8:7fff::1")));
  EXPECT_FALSE(wide.contains(ip_address("2001:db8:8000::1")));
  EXPECT_TRUE(ip_network("fe80::/10").contains(ip_address("fe80::1%1")));
}

TEST(IpNetwork, AnAddressStandsForItself) {
  const ip_network one = "192.0.2.7";
  EXPECT_EQ(one.prefix_length(), 32);
  EXPECT_TRUE(one.contains(ip_address("192.0.2.7")));
  EXPECT_FALSE(one.contains(ip_address("192.0.2.6")));
  EXPECT_EQ(ip_network("::1").to_string(), "::1/128");
}

TEST(IpNetwork, APrefixOfNoBitsContainsAllAddressesOfItsVersion) {
  EXPECT_TRUE(ip_network("0.0.0.0/0").contains(ip_address("255.1.2.3")));
  EXPECT_FALSE(ip_network("0.0.0.0/0").contains(ip_address("::1")));
  EXPECT_TRUE(ip_network("::/0").contains(ip_address("::1")));
  EXPECT_FALSE(ip_network("::/0").contains(ip_address("::ffff:1.2.3.4")));
}

TEST(IpNetwork, AMappedNetworkIsThatOfIpv4) {
  EXPECT_EQ(ip_network("::ffff:192.0.2.0/120"), ip_network("192.0.2.0/24"));
}

TEST(IpNetwork, ATextIsReadAndWritten) {
  for (const std::string text : {"192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32", "::1/128"}) {
    EXPECT_EQ(ip_network(text).to_string(), text);
  }
}

TEST(IpNetwork, RefusesOtherTexts) {
  for (const std::string_view text :
       {"", "/", "/8", "192.0.2.0/", "192.0.2.0/33", "192.0.2.0/-1", "192.0.2.0/024",
        "192.0.2.0/24 ", "192.0.2.7/24", "192.0.2/24", "2001:db8::/129", "2001:db8::1/64",
        "fe80::%1/64", "a/8", "192.0.2.0/24/24", "192.0.2.0/99999999999999999999"}) {
    EXPECT_FALSE(ip_network::parse(text)) << text;
    EXPECT_THROW(ip_network{text}, std::invalid_argument) << text;
  }
  EXPECT_THROW(ip_network(ip_address("10.0.0.1"), 8), std::invalid_argument);
  EXPECT_THROW(ip_network(ip_address("10.0.0.0"), 33), std::invalid_argument);
}

}  // namespace
}  // namespace ip_network_test
