// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/item_set.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lab::engines {
namespace item_set_test {
namespace {

TEST(ItemSet, KeysAndValuesDiffer) {
  const item_set items(1000, 16);
  std::set<std::string> keys;
  std::set<std::string> values;
  for (std::uint32_t item = 0; item < items.count(); ++item) {
    keys.emplace(items.key(item));
    values.insert(items.value(item));
    EXPECT_EQ(items.value(item).size(), 16);
  }
  EXPECT_EQ(keys.size(), 1000);
  EXPECT_EQ(values.size(), 1000);
}

TEST(ItemSet, EveryByteOfAValueCounts) {
  for (const std::size_t size : {16U, 17U, 100U}) {
    const item_set items(10, size);
    const std::string value = items.value(3);
    EXPECT_EQ(value.size(), items.value_bytes());
    EXPECT_TRUE(items.is_value(3, value));
    EXPECT_FALSE(items.is_value(4, value));
    EXPECT_FALSE(items.is_value(3, value + 'x'));
    EXPECT_FALSE(items.is_value(3, value.substr(1)));
    for (std::size_t at = 0; at < size; ++at) {
      std::string other = value;
      other[at] ^= 1;
      EXPECT_FALSE(items.is_value(3, other)) << at;
    }
  }
}

}  // namespace
}  // namespace item_set_test
}  // namespace lab::engines
