// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/client_options.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

namespace postgres_client_options_test {
namespace {

using namespace std::chrono_literals;
using gyre::postgres::channel_binding;
using gyre::postgres::client_options;
using gyre::postgres::encryption;
using gyre::postgres::tls_start;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::string refusal(const std::string& url) {
  try {
    static_cast<void>(client_options::parse(url));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(PostgresClientOptions, AreReadFromAUrl) {
  const auto options = client_options::parse("postgresql://app:s%40cret@db.example.org:5433/shop");
  EXPECT_EQ(options.server.to_string(), "db.example.org:5433");
  EXPECT_EQ(options.user, "app");
  EXPECT_EQ(options.password, "s@cret");
  EXPECT_EQ(options.database, "shop");
  EXPECT_EQ(options.encryption, encryption::off);
  EXPECT_EQ(options.application_name, "gyre");
}

TEST(PostgresClientOptions, PartsOfAUrlMayBeMissing) {
  EXPECT_EQ(client_options::parse("postgres://").server.to_string(), "localhost:5432");
  EXPECT_EQ(client_options::parse("postgres://").user, "");
  EXPECT_EQ(client_options::parse("postgresql://app@").user, "app");
  EXPECT_EQ(client_options::parse("postgresql:///shop").database, "shop");
  EXPECT_EQ(client_options::parse("postgresql://[::1]/").server.to_string(), "[::1]:5432");
  EXPECT_EQ(client_options::parse("postgresql://[::1]:7").server.to_string(), "[::1]:7");
  EXPECT_EQ(client_options::parse("postgresql://host:").server.to_string(), "host:5432");
  EXPECT_EQ(client_options::parse("postgresql://a@b:c@host").user, "a@b");
}

TEST(PostgresClientOptions, NamedValuesOfAUrlAreRead) {
  const auto options = client_options::parse(
      "postgresql://?host=/run/postgresql&port=5433&user=app&password=a%26b%3Dc&dbname=shop&"
      "application_name=my%20shop&options=-c%20geqo%3Doff&connect_timeout=7&statement_timeout=250&"
      "channel_binding=require&sslmode=disable");
  EXPECT_EQ(options.server.to_string(), "unix:/run/postgresql/.s.PGSQL.5433");
  EXPECT_EQ(options.user, "app");
  EXPECT_EQ(options.password, "a&b=c");
  EXPECT_EQ(options.database, "shop");
  EXPECT_EQ(options.application_name, "my shop");
  EXPECT_THAT(options.settings, ElementsAre(Pair("options", "-c geqo=off")));
  EXPECT_EQ(options.connect_timeout, 7s);
  EXPECT_EQ(options.statement_timeout, 250ms);
  EXPECT_EQ(options.channel_binding, channel_binding::require);
  EXPECT_EQ(client_options::parse("postgresql://?statement_timeout=0").statement_timeout,
            gyre::duration::max());
  EXPECT_EQ(client_options::parse("postgresql://%2Frun%2Fpg/x").server.to_string(),
            "unix:/run/pg/.s.PGSQL.5432");
}

TEST(PostgresClientOptions, AUrlChoosesTheEncryption) {
  const auto required = client_options::parse("postgresql://host?sslmode=require");
  EXPECT_EQ(required.encryption, encryption::require);
  EXPECT_TRUE(required.tls.has_value());
  const auto direct = client_options::parse(
      "postgresql://host?sslmode=verify-full&sslnegotiation=direct&sslrootcert=system");
  EXPECT_EQ(direct.encryption, encryption::verify_full);
  EXPECT_EQ(direct.tls_start, tls_start::direct);
  const std::string without_file =
      "postgresql://host?sslmode=verify-full&sslrootcert=/no/such/file";
  EXPECT_THROW(static_cast<void>(client_options::parse(without_file)), std::system_error);
}

TEST(PostgresClientOptions, UrlsThatMakeNoSenseAreRefused) {
  EXPECT_THAT(refusal("http://host"), HasSubstr("postgresql://"));
  EXPECT_THAT(refusal("postgresql://a,b/x"), HasSubstr("several hosts"));
  EXPECT_THAT(refusal("postgresql://?host=a,b"), HasSubstr("several hosts"));
  EXPECT_THAT(refusal("postgresql://host:99999"), HasSubstr("port"));
  EXPECT_THAT(refusal("postgresql://host:0"), HasSubstr("port"));
  EXPECT_THAT(refusal("postgresql://host:12x"), HasSubstr("port"));
  EXPECT_THAT(refusal("postgresql://[::1"), HasSubstr("']'"));
  EXPECT_THAT(refusal("postgresql://[::1]x"), HasSubstr("']'"));
  EXPECT_THAT(refusal("postgresql://a%zz@host"), HasSubstr("hexadecimal"));
  EXPECT_THAT(refusal("postgresql://a%4"), HasSubstr("hexadecimal"));
  EXPECT_THAT(refusal("postgresql://a%00@host"), HasSubstr("zero byte"));
  EXPECT_THAT(refusal("postgresql://host?sslmode=prefer"), HasSubstr("plain text"));
  EXPECT_THAT(refusal("postgresql://host?sslmode=verify-ca"), HasSubstr("verify-full"));
  EXPECT_THAT(refusal("postgresql://host?sslmode=x"), HasSubstr("sslmode"));
  EXPECT_THAT(refusal("postgresql://host?target_session_attrs=any"), HasSubstr("not known"));
  EXPECT_THAT(refusal("postgresql://host?user"), HasSubstr("without a value"));
  EXPECT_THAT(refusal("postgresql://host?connect_timeout=0"), HasSubstr("connect_timeout"));
  EXPECT_THAT(refusal("postgresql://host?connect_timeout=-1"), HasSubstr("connect_timeout"));
  EXPECT_THAT(refusal("postgresql://host?sslmode=require&sslrootcert=x"), HasSubstr("verify-full"));
  EXPECT_THAT(refusal("postgresql://host?sslmode=require&sslcert=x"), HasSubstr("sslkey"));
  EXPECT_THAT(refusal("postgresql://host?sslcert=x&sslkey=y"), HasSubstr("sslmode"));
  EXPECT_THAT(refusal("postgresql://host#x"), HasSubstr("#"));
  EXPECT_THAT(refusal(std::string("postgresql://a\0b", 16)), HasSubstr("zero byte"));
  EXPECT_THAT(refusal("postgresql://" + std::string(20'000, 'x')), HasSubstr("16 KiB"));
}

TEST(PostgresClientOptions, NoErrorTellsThePassword) {
  for (const char* each : {"postgresql://u:sesame@host:x", "postgresql://u:sesame%zz@host",
                           "postgresql://u:sesame@a,b", "postgresql://u:sesame@host?x=y",
                           "postgresql://?password=sesame&sslmode=prefer"}) {
    EXPECT_THAT(refusal(each), testing::AllOf(Not("none"), Not(HasSubstr("sesame")))) << each;
  }
}

TEST(PostgresClientOptions, DoNotReadTheEnvironment) {
  ::setenv("PGUSER", "somebody", 1);
  ::setenv("PGHOST", "elsewhere", 1);
  const auto options = client_options::parse("postgresql://");
  ::unsetenv("PGUSER");
  ::unsetenv("PGHOST");
  EXPECT_EQ(options.user, "");
  EXPECT_EQ(options.server.to_string(), "localhost:5432");
}

}  // namespace
}  // namespace postgres_client_options_test
