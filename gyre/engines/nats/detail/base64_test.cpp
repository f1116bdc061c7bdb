// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/base64.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string_view>

namespace base64_test {
namespace {

using gyre::nats::detail::decode_base64;

TEST(NatsBase64, DecodesPaddedTexts) {
  const std::string_view text = "foobar";  // as in RFC 4648, section 10
  const std::string_view encoded[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                      "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
  for (std::size_t size = 0; size <= text.size(); ++size) {
    EXPECT_EQ(decode_base64(encoded[size]), text.substr(0, size));
  }
  EXPECT_EQ(decode_base64("+/+/"), "\xfb\xff\xbf");
}

TEST(NatsBase64, RefusesOtherTexts) {
  for (const std::string_view each :
       {"Z", "Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Zg==Zg==", "Z\ng=", "Zm9-", "Zm9v\n"}) {
    EXPECT_FALSE(decode_base64(each)) << each;
  }
}

}  // namespace
}  // namespace base64_test
