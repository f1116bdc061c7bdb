// SPDX-License-Identifier: Apache-2.0
// hosts_file: the addresses in /etc/hosts (hosts(5)). gyre reads the file itself: c-ares before
// 1.19 reads no other than the system's, and the whole of it for each lookup.
#pragma once

#include <gyre/net/address.hpp>
#include <gyre/net/detail/file_version.hpp>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::net::detail {

/// The addresses of each host, by its name as host_key() spells it, in the file's order.
using hosts = std::map<std::string, std::vector<ip_address>, std::less<>>;

/// A name in the one spelling by which it is found: in small letters, without a dot at its end.
std::string host_key(std::string_view name);

/// Reads the text of a hosts file; lines that make no sense are left out.
hosts parse_hosts(std::string_view text);

/// The file at a path, read when it is first asked and whenever it has changed since. One system
/// call each time it is asked. A file that cannot be read has no hosts.
class hosts_file {
 public:
  explicit hosts_file(std::string path) : path_(std::move(path)) {}
  /// Null if there is no such host. Valid until it is asked again. Throws std::bad_alloc.
  const std::vector<ip_address>* find(std::string_view key);

 private:
  const std::string path_;
  file_version read_;
  hosts hosts_;
};

}  // namespace gyre::net::detail
