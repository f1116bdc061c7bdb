// SPDX-License-Identifier: Apache-2.0
// root_directory: opens files below a directory, and nothing outside it.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/unique_fd.hpp>

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace gyre::http::detail {

/// Decodes the part of a URL's path that follows the path of the root: "a/b%20c" becomes "a/b c".
/// The result does not begin with '/', and ends with '/' if `rest` does. Returns nothing if `rest`
/// - is malformed, or has an empty segment other than the last,
/// - has a segment that decodes to "." or "..", or to a text with '/', '\\' or a zero byte,
/// - has a segment that begins with a dot, unless `serves_hidden` allows that.
[[nodiscard]] std::optional<std::string> path_below_root(std::string_view rest, bool serves_hidden);

/// Whether path_below_root() accepts a segment that decodes to `name`, so that the file is served.
[[nodiscard]] bool is_served_name(std::string_view name, bool serves_hidden) noexcept;

/// An open directory, below which files are opened.
///
/// Thread-safety: any number of threads may call open().
class root_directory {
 public:
  enum class symlinks : std::uint8_t {
    refuse,
    inside,  ///< follows symlinks that stay below the root; none on kernels without openat2(2)
  };
  enum class lookup_scope : std::uint8_t {
    any,
    cached,  ///< fails with EAGAIN if the call might wait for a disk
  };

  /// Opens the directory. Throws std::system_error with `path`.
  root_directory(const std::string& path, symlinks followed_symlinks);

  /// Opens a file or directory for reading, or returns the error number. `path`: a result of
  /// path_below_root(); empty for the root. Does not wait for the other end of a FIFO.
  [[nodiscard]] std::expected<unique_fd, int> open(const std::string& path,
                                                   lookup_scope scope) const noexcept;
  /// Opens `path` like open() on a kernel without openat2(2): opens one segment after the other,
  /// and follows no symlink.
  [[nodiscard]] std::expected<unique_fd, int> open_by_segments(std::string_view path) const;

 private:
  unique_fd root_;
  symlinks symlinks_;
  // Whether the kernel has openat2(2) and RESOLVE_CACHED. relaxed: hints that only save system
  // calls.
  mutable gyre::detail::atomic<bool> has_openat2_{true};
  mutable gyre::detail::atomic<bool> has_cached_{true};
};

}  // namespace gyre::http::detail
