// SPDX-License-Identifier: Apache-2.0
// hosts_file: the addresses in /etc/hosts (hosts(5)). gyre reads the file itself, because c-ares
// before 1.19 can read only the system's file, and reads all of it for each lookup.
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

/// The addresses of each host in the file's order, by the host's name in the form of host_key().
using hosts = std::map<std::string, std::vector<ip_address>, std::less<>>;

/// Returns a name in the form by which it is found: in lower case, without a final dot.
std::string host_key(std::string_view name);

/// Reads the text of a hosts file; ignores malformed lines.
hosts parse_hosts(std::string_view text);

/// The hosts in a file, which find() reads when it is first called, and again whenever the file has
/// changed. A file that cannot be read has no hosts.
/// Complexity: find() makes one system call if the file has not changed.
class hosts_file {
 public:
  explicit hosts_file(std::string path) : path_(std::move(path)) {}
  /// Returns the addresses of a host, valid until the next call; null if there is no such host.
  /// Throws std::bad_alloc.
  const std::vector<ip_address>* find(std::string_view key);

 private:
  const std::string path_;
  file_version version_;
  hosts hosts_;
};

}  // namespace gyre::net::detail
