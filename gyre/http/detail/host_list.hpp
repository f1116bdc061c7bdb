// SPDX-License-Identifier: Apache-2.0
// host_list: the hosts that a server answers for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

/// Names in order, for a search that allocates nothing. See server_options::hosts.
///
/// Thread-safety: any thread.
class host_list {
 public:
  /// Throws std::invalid_argument for an entry that is no host.
  explicit host_list(const std::vector<std::string>& entries);

  bool empty() const noexcept { return names_.empty() && parents_.empty(); }
  /// `host`: without a port. Always true if the list is empty.
  [[nodiscard]] bool covers(std::string_view host) const noexcept;

 private:
  std::vector<std::string> names_;
  std::vector<std::string> parents_;  // of "*.example.org": "example.org"
};

}  // namespace gyre::http::detail
