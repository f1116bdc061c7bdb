// SPDX-License-Identifier: Apache-2.0
// host_list: the hosts that a server answers for; the grammar of the field Host.
//
//     is_host_field("example.org:8080");  // true
//     is_host_field("user@example.org");  // false: an http URI has no user (RFC 9110, 4.2.4)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

/// Whether `text` is uri-host [ ":" [ port ] ] with a host that is not empty (RFC 9110, 7.2).
/// Addresses of IPv6 have brackets and no zone; IPvFuture is refused, as nothing uses it.
[[nodiscard]] bool is_host_field(std::string_view text) noexcept;

/// The host at the beginning of `text`, without the port; an address of IPv6 keeps its brackets.
[[nodiscard]] std::string_view host_of(std::string_view text) noexcept;

/// Whether `text` is uri-host ":" port, as CONNECT has it (RFC 9112, 3.2.3).
[[nodiscard]] bool is_authority_form(std::string_view text) noexcept;

/// The names of hosts, sorted for a search that allocates nothing. See server_options::hosts.
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
