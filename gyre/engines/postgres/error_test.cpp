// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <system_error>

namespace postgres_error_test {
namespace {

using gyre::postgres::errc;
using gyre::postgres::errc_of;
using gyre::postgres::server_error;
using gyre::postgres::server_message;
using testing::HasSubstr;
using testing::Not;

TEST(PostgresError, HasTheCodeOfItsSqlstateOrOfTheClass) {
  EXPECT_EQ(errc_of("23505"), errc::unique_violation);
  EXPECT_EQ(errc_of("40001"), errc::serialization_failure);
  EXPECT_EQ(errc_of("23999"), errc::integrity_violation);
  EXPECT_EQ(errc_of("22012"), errc::division_by_zero);
  EXPECT_EQ(errc_of("22000"), errc::data_exception);
  EXPECT_EQ(errc_of("XX001"), errc::internal_error);
  EXPECT_EQ(errc_of("99999"), errc::server);
  EXPECT_EQ(errc_of(""), errc::server);
  EXPECT_EQ(errc_of("2"), errc::server);
}

TEST(PostgresError, EveryCodeHasAMessage) {
  for (int code = 1; code <= static_cast<int>(errc::internal_error); ++code) {
    const std::error_code error(code, gyre::postgres::postgres_category());
    const bool is_known = code <= 9 || (code >= 16 && code <= 29) || code >= 64;
    EXPECT_EQ(error.message() != "unknown error", is_known) << code;
  }
}

TEST(PostgresError, EqualsConditionsOfTheSystem) {
  EXPECT_EQ(make_error_code(errc::connection_lost), std::errc::connection_reset);
  EXPECT_EQ(make_error_code(errc::statement_timeout), std::errc::timed_out);
  EXPECT_EQ(make_error_code(errc::invalid_password), std::errc::permission_denied);
  EXPECT_EQ(make_error_code(errc::deadlock_detected), std::errc::resource_unavailable_try_again);
  EXPECT_NE(make_error_code(errc::query_canceled), std::errc::operation_canceled);
}

TEST(PostgresError, TellsTheServersFieldsAndHidesValuesOfRows) {
  server_message message;
  message.severity = "ERROR";
  message.sqlstate = "23505";
  message.message = "duplicate key value violates unique constraint \"account_email_key\"";
  message.detail = "Key (email)=(a@example.org) already exists.";
  message.constraint = "account_email_key";
  message.position = 7;
  const server_error error(message, "insert into account\n  (email) values ($1)");
  EXPECT_EQ(error.code(), errc::unique_violation);
  EXPECT_EQ(error.sqlstate(), "23505");
  EXPECT_EQ(error.constraint(), "account_email_key");
  EXPECT_EQ(error.position(), 7U);
  EXPECT_THAT(error.detail(), HasSubstr("a@example.org"));
  EXPECT_THAT(error.what(), HasSubstr("ERROR 23505: duplicate key"));
  EXPECT_THAT(error.what(), HasSubstr("[insert into account (email) values ($1)]"));
  EXPECT_THAT(error.what(), Not(HasSubstr("a@example.org")));
}

TEST(PostgresError, ShortensStatementsAtTheBeginningOfACharacter) {
  const std::string long_text = "select '" + std::string(111, 'x') + "äöü'";
  const std::string excerpt = gyre::postgres::detail::excerpt_of(long_text);
  EXPECT_EQ(excerpt, "select '" + std::string(111, 'x') + "ä…");
  EXPECT_EQ(gyre::postgres::detail::excerpt_of("  select 1\t\n "), "select 1 ");
}

}  // namespace
}  // namespace postgres_error_test
