// SPDX-License-Identifier: Apache-2.0
// Tests of status codes.
#include <gyre/http/status.hpp>

#include <gtest/gtest.h>

namespace status_test {
namespace {

using gyre::http::reason_phrase;
using gyre::http::status;

TEST(Status, HasTheRegisteredPhrase) {
  EXPECT_EQ(reason_phrase(status::ok), "OK");
  EXPECT_EQ(reason_phrase(status::content_too_large), "Content Too Large");
  EXPECT_EQ(gyre::http::to_number(status::uri_too_long), 414U);
  EXPECT_EQ(reason_phrase(static_cast<status>(299)), "");
}

TEST(Status, BelongsToOneClass) {
  for (unsigned code = 100; code < 1000; ++code) {
    const auto each = static_cast<status>(code);
    EXPECT_EQ(gyre::http::is_informational(each) + gyre::http::is_success(each) +
                  gyre::http::is_redirection(each) + gyre::http::is_client_error(each) +
                  gyre::http::is_server_error(each),
              1);
  }
  EXPECT_TRUE(gyre::http::is_client_error(status::not_found));
  EXPECT_TRUE(gyre::http::is_server_error(static_cast<status>(600)));
  EXPECT_FALSE(gyre::http::is_server_error(static_cast<status>(499)));
}

TEST(Status, SomeNeverHaveABody) {
  EXPECT_TRUE(gyre::http::never_has_body(status::continue_));
  EXPECT_TRUE(gyre::http::never_has_body(status::no_content));
  EXPECT_TRUE(gyre::http::never_has_body(status::not_modified));
  EXPECT_FALSE(gyre::http::never_has_body(status::ok));
}

}  // namespace
}  // namespace status_test
