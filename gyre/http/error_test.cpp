// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/error.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <system_error>

namespace http_error_test {
namespace {

using gyre::http::errc;
using gyre::http::status_code_of;

TEST(HttpError, EachSaysWhatWasWrongAndHasItsStatus) {
  std::set<std::string> messages;
  for (int code = 1; code <= static_cast<int>(errc::misdirected); ++code) {
    const std::error_code error = static_cast<errc>(code);
    EXPECT_STREQ(error.category().name(), "gyre.http");
    EXPECT_TRUE(messages.insert(error.message()).second) << error.message();
    EXPECT_NE(error.message(), "unknown error");
  }
  EXPECT_EQ(status_code_of(errc::bad_field), 400);
  EXPECT_EQ(status_code_of(errc::timed_out), 408);
  EXPECT_EQ(status_code_of(errc::body_too_large), 413);
  EXPECT_EQ(status_code_of(errc::target_too_long), 414);
  EXPECT_EQ(status_code_of(errc::unknown_expectation), 417);
  EXPECT_EQ(status_code_of(errc::misdirected), 421);
  EXPECT_EQ(status_code_of(errc::fields_too_large), 431);
  EXPECT_EQ(status_code_of(errc::unknown_transfer_coding), 501);
  EXPECT_EQ(status_code_of(errc::unsupported_version), 505);
  EXPECT_EQ(std::error_code(errc::timed_out), std::errc::timed_out);
}

}  // namespace
}  // namespace http_error_test
