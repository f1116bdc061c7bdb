// SPDX-License-Identifier: Apache-2.0
// hosts_file: /etc/hosts (hosts(5)). gyre reads it itself: c-ares before 1.19 reads
// no other than the system's, and the whole of it for each lookup.
#pragma once

#include <gyre/net/address.hpp>

#include <sys/stat.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::net::detail {

/// One system call for each question.
class file_version {
 public:
  /// Whether the file at `path` is another than it was the last time, and remembers it; a file that
  /// is not there, or not a regular one, is none. True the first time, if there is one.
  bool update(const std::string& path) noexcept {
    struct stat present{};
    // Reading from something else, such as a pipe, could block.
    if (::stat(path.c_str(), &present) != 0 || !S_ISREG(present.st_mode)) present = {};
    const bool same = present.st_ino == last_.st_ino && present.st_dev == last_.st_dev &&
                      present.st_size == last_.st_size &&
                      present.st_mtim.tv_sec == last_.st_mtim.tv_sec &&
                      present.st_mtim.tv_nsec == last_.st_mtim.tv_nsec;
    last_ = present;
    return !same;
  }
  /// Whether there was one the last time.
  bool exists() const noexcept { return last_.st_ino != 0; }

 private:
  struct stat last_{};
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
  void read_if_changed();

  const std::string path_;
  file_version read_;
  hosts hosts_;
};

}  // namespace gyre::net::detail
