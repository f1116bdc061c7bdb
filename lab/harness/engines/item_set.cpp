// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/engines/item_set.hpp>

#include <cstdio>

namespace lab::engines {
namespace {

// Spreads the numbers over all digits (the finaliser of SplitMix64, S. Vigna).
std::uint64_t mix(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

template <class Number>
std::string print(const char* format, Number number) {
  char text[32];
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, format, number))};
}

}  // namespace

item_set::item_set(std::uint32_t count, std::size_t value_bytes) {
  for (std::uint32_t item = 0; item < count; ++item) {
    keys_.push_back(print("item:%06u", item));
    heads_.push_back(print("%016llx", static_cast<unsigned long long>(mix(item))));
  }
  for (std::size_t at = smallest_value; at < value_bytes; ++at) {
    tail_ += static_cast<char>('a' + at * 31 % 26);
  }
}

}  // namespace lab::engines
