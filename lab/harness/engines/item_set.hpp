// SPDX-License-Identifier: Apache-2.0
// The items of an engine in the data experiments: values under keys, rows, or bodies of requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lab::engines {

/// Numbered values of one size, all different.
///
/// A value begins with 16 characters of its own and ends like all others, so that a value can be
/// checked whole without memory for all of them.
///
/// Thread-safety: any thread.
class item_set {
 public:
  static constexpr std::size_t smallest_value = 16;

  /// `value_bytes` is at least smallest_value.
  item_set(std::uint32_t count, std::size_t value_bytes);

  std::uint32_t count() const { return static_cast<std::uint32_t>(heads_.size()); }
  std::size_t value_bytes() const { return smallest_value + tail_.size(); }

  /// The key of an item, such as "item:000017".
  std::string_view key(std::uint32_t item) const { return keys_[item]; }
  std::string value(std::uint32_t item) const { return heads_[item] + tail_; }
  /// Whether `found` is the value of `item`, byte for byte.
  bool is_value(std::uint32_t item, std::string_view found) const {
    return found.size() == value_bytes() && found.starts_with(heads_[item]) &&
           found.ends_with(tail_);
  }

 private:
  std::vector<std::string> keys_;
  std::vector<std::string> heads_;
  std::string tail_;
};

}  // namespace lab::engines
