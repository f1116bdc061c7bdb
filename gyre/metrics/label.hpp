// SPDX-License-Identifier: Apache-2.0
// label, label_view: the labels of a sample, which tell the samples of one metric apart.
//
//     exposition.add_counter("mails_total", "Mails by their end.", sent, {{"end", "sent"}});
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace gyre::metrics {

/// A label of a sample, such as {"code", "200"}. Its value is any text; bytes that are not UTF-8
/// are written as U+FFFD.
struct label {
  std::string_view name;
  std::string_view value;
};

/// The labels of one sample, made of a list in braces or of a vector.
///
/// Lifetime: a view of the labels; for parameters.
class label_view {
 public:
  constexpr label_view() noexcept = default;
  // NOLINTNEXTLINE(google-explicit-constructor): parameters are lists in braces
  constexpr label_view(std::initializer_list<label> labels) noexcept
      : labels_(labels.begin(), labels.size()) {}
  // NOLINTNEXTLINE(google-explicit-constructor): labels that a program computes
  constexpr label_view(const std::vector<label>& labels) noexcept : labels_(labels) {}

  [[nodiscard]] constexpr auto begin() const noexcept { return labels_.begin(); }
  [[nodiscard]] constexpr auto end() const noexcept { return labels_.end(); }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return labels_.size(); }

 private:
  std::span<const label> labels_;
};

}  // namespace gyre::metrics
