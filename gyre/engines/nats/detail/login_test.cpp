// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/login.hpp>

#include <gyre/engines/nats/detail/nkey.hpp>
#include <gyre/engines/nats/error.hpp>
#include <tests/support/temporary_folder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <system_error>

namespace nats_login_test {
namespace {

using gyre::nats::client_options;
using gyre::nats::errc;
using gyre::nats::detail::connect_line;
using gyre::nats::detail::info_message;
using gyre::nats::detail::nkey;
using gyre::nats::detail::parse_credentials;
using gyre::nats::detail::parse_info;
using gyre::nats::detail::server_address;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The keys of an example in the documentation of NATS.
constexpr const char* seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
constexpr const char* public_key = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

template <class Call>
std::error_code error_of(Call call) {
  try {
    call();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

TEST(NatsLogin, ReadsInfo) {
  const auto info = parse_info(
      R"({"server_id":"NA","server_name":"n1","version":"2.15.1","port":4222,"headers":true,)"
      R"("max_payload":100,"client_id":7,"jetstream":true,"nonce":"abc","tls_required":true,)"
      R"("connect_urls":["a:1","b:2",3],"ldm":true,"cluster":"c"})");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->server.id, "NA");
  EXPECT_EQ(info->server.name, "n1");
  EXPECT_EQ(info->server.version, "2.15.1");
  EXPECT_EQ(info->server.port, 4222);
  EXPECT_EQ(info->server.max_payload, 100U);
  EXPECT_EQ(info->server.client_id, 7U);
  EXPECT_EQ(info->server.cluster, "c");
  EXPECT_TRUE(info->server.has_headers && info->server.has_jetstream && info->tls_required);
  EXPECT_TRUE(info->server.is_lame_duck);
  EXPECT_EQ(info->nonce, "abc");
  EXPECT_THAT(info->connect_urls, ElementsAre("a:1", "b:2"));
}

TEST(NatsLogin, ToleratesHostileInfo) {
  EXPECT_FALSE(parse_info(""));
  EXPECT_FALSE(parse_info("{"));
  EXPECT_FALSE(parse_info("[]"));
  EXPECT_FALSE(parse_info("\xff"));
  EXPECT_FALSE(parse_info(std::string(60000, '[')));
  EXPECT_FALSE(parse_info(std::string(30000, '[') + std::string(30000, ']')));
  const auto info = parse_info(
      R"({"port":70000,"max_payload":-1,"headers":"yes","server_id":1,"connect_urls":{},"x":1e999})");
  // A number that is none makes no INFO; without it members of other types count as missing.
  EXPECT_FALSE(info);
  const auto odd = parse_info(
      R"({"port":70000,"max_payload":-1,"headers":"yes","server_id":1,"connect_urls":{}})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->server.port, 0);
  EXPECT_EQ(odd->server.max_payload, 1048576U);
  EXPECT_FALSE(odd->server.has_headers);
}

TEST(NatsLogin, WritesConnect) {
  client_options options;
  options.name = "a \"name\"\r\n";
  options.user = "me";
  options.password = "pass";
  options.echo = false;
  const std::string line = connect_line(options, server_address::parse("localhost"), {});
  EXPECT_TRUE(line.starts_with("CONNECT {"));
  EXPECT_TRUE(line.ends_with("}\r\n"));
  EXPECT_THAT(line, HasSubstr(R"("name":"a \"name\"\r\n")"));
  EXPECT_THAT(line, HasSubstr(R"("user":"me")"));
  EXPECT_THAT(line, HasSubstr(R"("pass":"pass")"));
  EXPECT_THAT(line, HasSubstr(R"("echo":false)"));
  EXPECT_THAT(line, HasSubstr(R"("verbose":false)"));
}

TEST(NatsLogin, PrefersTheUserOfTheServersText) {
  client_options options;
  options.user = "me";
  options.password = "mine";
  const std::string user = connect_line(options, server_address::parse("a%40b:c@localhost"), {});
  EXPECT_THAT(user, HasSubstr(R"("user":"a@b")"));
  EXPECT_THAT(user, HasSubstr(R"("pass":"c")"));
  const std::string token = connect_line(options, server_address::parse("t@localhost"), {});
  EXPECT_THAT(token, HasSubstr(R"("auth_token":"t")"));
  EXPECT_THAT(token, Not(HasSubstr("mine")));
}

TEST(NatsLogin, SignsTheNonce) {
  client_options options;
  options.nkey_seed = seed;
  const server_address server = server_address::parse("localhost");
  const auto without_nonce = [&] { connect_line(options, server, {}); };
  EXPECT_EQ(error_of(without_nonce), errc::nonce_missing);
  const std::string line = connect_line(options, server, info_message{.nonce = "nonce"});
  EXPECT_THAT(line, HasSubstr(std::string(R"("nkey":")") + public_key + '"'));
  EXPECT_THAT(line, HasSubstr(R"("sig":")" + nkey(seed).sign("nonce")));
  EXPECT_THAT(line, Not(HasSubstr(seed)));
}

TEST(NatsLogin, ReadsCredentials) {
  const std::string text = std::string("-----BEGIN NATS USER JWT-----\r\neyJ.a-b_c.d\r\n") +
                           "------END NATS USER JWT------\n\n****\n" +
                           "-----BEGIN USER NKEY SEED-----\n  " + seed + "\n" +
                           "------END USER NKEY SEED------\n";
  EXPECT_EQ(parse_credentials(text).jwt, "eyJ.a-b_c.d");
  EXPECT_EQ(parse_credentials(text).seed, seed);
  const gyre::test::temporary_folder folder;
  client_options options;
  options.credentials_file = folder.make_file("user.creds", text);
  const server_address server = server_address::parse("localhost");
  const std::string line = connect_line(options, server, info_message{.nonce = "nonce"});
  EXPECT_THAT(line, HasSubstr(R"("jwt":"eyJ.a-b_c.d")"));
  EXPECT_THAT(line, Not(HasSubstr("nkey")));
  options.credentials_file += ".none";
  const auto read_missing = [&] { connect_line(options, server, info_message{.nonce = "n"}); };
  EXPECT_EQ(error_of(read_missing), std::errc::no_such_file_or_directory);
  for (const char* broken : {"", "BEGIN NATS USER JWT", "BEGIN NATS USER JWT\n \n",
                             "-----BEGIN USER NKEY SEED-----\nSU\n"}) {
    EXPECT_EQ(error_of([&] { parse_credentials(broken); }), errc::bad_credentials) << broken;
  }
}

TEST(NatsKey, DerivesThePublicKey) { EXPECT_EQ(nkey(seed).public_key(), public_key); }

TEST(NatsKey, SignsAsEd25519) {
  const std::string signature = nkey(seed).sign("nonce");
  EXPECT_EQ(signature.size(), 86U);
  EXPECT_EQ(signature.find_first_of("+/="), std::string::npos);
  EXPECT_EQ(nkey(seed).sign("nonce"), signature);
  EXPECT_NE(nkey(seed).sign("nonces"), signature);
}

TEST(NatsKey, RefusesOtherTexts) {
  std::string wrong_sum = seed;
  wrong_sum[20] = wrong_sum[20] == 'A' ? 'B' : 'A';
  for (const std::string& text :
       {std::string(), std::string("SU"), std::string(public_key), wrong_sum,
        std::string(seed) + 'A', std::string(seed).substr(1), std::string(58, '1'),
        std::string(58, 'A'), std::string(58, '\xff')}) {
    const auto make = [&] { const nkey key(text); };
    EXPECT_EQ(error_of(make), errc::bad_credentials) << text;
  }
}

}  // namespace
}  // namespace nats_login_test
