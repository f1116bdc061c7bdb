// SPDX-License-Identifier: Apache-2.0
// hosts_file: /etc/hosts (hosts(5)). gyre reads it itself: c-ares before 1.19 reads
// no other than the system's, and the whole of it for each lookup.
#pragma once

#include <gyre/net/address.hpp>

#include <sys/stat.h>

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace gyre::net::detail {

/// One system call for each question.
class file_version {
 public:
  /// Whether the file at `path` is another than it was the last time, and remembers it; a file that
  /// is not there, or not a regular one, is none. True the first time, if there is one.
  bool update(const std::string& path) noexcept {
    struct stat found{};
    // Reading from something else, such as a pipe, could block.
    const bool readable = ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
    const version present = readable ? version(found.st_ino, found.st_dev, found.st_size,
                                               found.st_mtim.tv_sec, found.st_mtim.tv_nsec)
                                     : version();
    return std::exchange(last_, present) != present;
  }
  /// Whether there was one the last time.
  bool exists() const noexcept { return std::get<0>(last_) != 0; }

 private:
  using version = std::tuple<::ino_t, ::dev_t, ::off_t, ::time_t, long>;
  version last_;
};

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
