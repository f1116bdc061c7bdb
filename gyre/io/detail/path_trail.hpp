// SPDX-License-Identifier: Apache-2.0
// walk_path: resolves a path as the kernel does, and reports the names that the result depends on.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace gyre::io::detail {

/// A name on a path, in a directory whose own path has no links.
struct path_step {
  enum class role {
    link,  // a link, or a name that is missing
    name,  // the last name of the path
    file,  // the name of the file itself, if the last name of the path is a link
  };
  role kind;
  std::string directory;
  std::string name;
};

/// The result of a walk.
struct path_end {
  /// The file's device and number; none if a name on the path is missing.
  std::optional<std::pair<dev_t, ino_t>> file = {};
  bool has_links = false;
  /// Whether the directory of the path's last name was reached.
  bool has_directory = false;
  /// The error number that ended the walk, or 0.
  int error = 0;

  /// Returns whether the walk ended only because a name is missing.
  bool is_missing() const noexcept { return error == ENOENT || error == ENOTDIR; }
};

/// Resolves `path`, which is absolute. Before the walk reads a link, or looks for a missing name or
/// the last name, it calls `visit`, which may begin to watch the directory, so that no change is
/// missed. `visit` returns an error number, which ends the walk, or 0.
[[nodiscard]] path_end walk_path(const std::string& path,
                                 const std::function<int(const path_step&)>& visit);

}  // namespace gyre::io::detail
