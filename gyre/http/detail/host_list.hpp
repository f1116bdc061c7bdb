// SPDX-License-Identifier: Apache-2.0
// host_list: the hosts that a server serves. is_host_field, host_of: the grammar of the field Host.
//
//     is_host_field("example.org:8080");  // true
//     is_host_field("user@example.org");  // false: an http URI has no user (RFC 9110, 4.2.4)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

/// Whether `text` is uri-host [ ":" [ port ] ] with a host that is not empty (RFC 9110, 7.2). IPv6
/// addresses must have brackets and no zone. IPvFuture is refused, because nothing uses it.
[[nodiscard]] bool is_host_field(std::string_view text) noexcept;

/// Returns the host at the beginning of `text`, without the port. An IPv6 address keeps its
/// brackets.
[[nodiscard]] std::string_view host_of(std::string_view text) noexcept;

/// Whether `text` is uri-host ":" port, the form of the target of CONNECT (RFC 9112, 3.2.3).
[[nodiscard]] bool is_authority_form(std::string_view text) noexcept;

/// The hosts of server_options::hosts, sorted so that a search allocates nothing.
///
/// Thread-safety: any thread.
class host_list {
 public:
  /// Throws std::invalid_argument for an entry that is no host.
  explicit host_list(const std::vector<std::string>& entries);

  bool empty() const noexcept { return names_.empty() && parents_.empty(); }
  /// Whether the list contains `host`, which has no port, or a wildcard for it. An empty list
  /// covers every host.
  [[nodiscard]] bool covers(std::string_view host) const noexcept;

 private:
  std::vector<std::string> names_;
  std::vector<std::string> parents_;  // "example.org" for the entry "*.example.org"
};

}  // namespace gyre::http::detail
