// SPDX-License-Identifier: Apache-2.0
// origin_list: the origins that cors() allows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

/// Thread-safety: as a value.
class origin_list {
 public:
  /// Throws std::invalid_argument: see cors_options::origins.
  explicit origin_list(const std::vector<std::string>& origins);

  [[nodiscard]] bool allows_any() const noexcept { return allows_any_; }
  /// Whether an origin, as a browser sends it, is in the list.
  [[nodiscard]] bool contains(std::string_view origin) const noexcept;

 private:
  // "https://*.example.org:8443": the parts before and after the '*'.
  struct pattern {
    std::string scheme;
    std::string suffix;
  };

  bool allows_any_ = false;
  std::vector<std::string> exact_;
  std::vector<pattern> patterns_;
};

}  // namespace gyre::http::detail
