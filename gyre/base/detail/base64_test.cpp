// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/base64.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string_view>

namespace base64_test {
namespace {

using gyre::detail::decode_base64;
using gyre::detail::encode_base64;

TEST(Base64, IsAPaddedText) {
  const std::string_view text = "foobar";  // as in RFC 4648, section 10
  const std::string_view encoded[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                      "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
  for (std::size_t size = 0; size <= text.size(); ++size) {
    EXPECT_EQ(decode_base64(encoded[size]), text.substr(0, size));
    EXPECT_EQ(encode_base64(std::as_bytes(std::span(text.data(), size))), encoded[size]);
  }
  EXPECT_EQ(decode_base64("+/+/"), "\xfb\xff\xbf");
}

TEST(Base64, RefusesOtherTexts) {
  for (const std::string_view each : {"Z", "Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Zg==Zg==",
                                      "Z\ng=", "Zm9-", "Zm9v\n", "Zg= ", "Zm=v", " Zm9v", "Zm-v"}) {
    EXPECT_FALSE(decode_base64(each)) << each;
  }
}

}  // namespace
}  // namespace base64_test
