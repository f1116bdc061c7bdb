// SPDX-License-Identifier: Apache-2.0
// Tests of methods and sets of them.
#include <gyre/http/method.hpp>

#include <gtest/gtest.h>

namespace method_test {
namespace {

using gyre::http::is_idempotent;
using gyre::http::is_safe;
using gyre::http::method;
using gyre::http::method_of;
using gyre::http::method_set;
using gyre::http::to_text;

TEST(Method, NamesAreReadAsTheyAreWritten) {
  for (const method each : {method::get, method::head, method::post, method::put, method::delete_,
                            method::connect, method::options, method::trace, method::patch}) {
    EXPECT_EQ(method_of(to_text(each)), each);
  }
  EXPECT_EQ(method_of("DELETE"), method::delete_);
}

TEST(Method, OtherNamesAreOther) {
  EXPECT_EQ(method_of("get"), method::other);
  EXPECT_EQ(method_of(""), method::other);
  EXPECT_EQ(method_of("GETS"), method::other);
  EXPECT_EQ(method_of("PROPFIND"), method::other);
  EXPECT_EQ(to_text(method::other), "");
}

TEST(Method, OnlyIdempotentOnesMayBeRepeated) {
  EXPECT_TRUE(is_safe(method::get));
  EXPECT_FALSE(is_safe(method::put));
  EXPECT_TRUE(is_idempotent(method::put));
  EXPECT_FALSE(is_idempotent(method::post));
  EXPECT_FALSE(is_idempotent(method::patch));
  EXPECT_FALSE(is_idempotent(method::other));
}

TEST(MethodSet, IsWrittenAsTheValueOfAllow) {
  method_set set{method::put, method::get};
  EXPECT_EQ(set.to_string(), "GET, PUT");
  EXPECT_TRUE(set.contains(method::put));
  EXPECT_FALSE(set.contains(method::head));
  EXPECT_EQ(method_set().to_string(), "");
  EXPECT_TRUE(method_set::all().contains(method::other));
  EXPECT_EQ(method_set::all().to_string(),
            "GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH");
}

}  // namespace
}  // namespace method_test
