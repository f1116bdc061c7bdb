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

/// The path below a root that the encoded rest of a URL's path names, such as "a/b%20c": "a/b c".
/// It begins with no '/', and ends with one if the rest does. Nothing for a rest
/// - that is malformed, or has an empty segment other than the last,
/// - with a segment that decodes to "." or "..", or to a text with '/', '\\' or a zero byte,
/// - with a segment that begins with a dot, unless `hidden` allows that.
[[nodiscard]] std::optional<std::string> path_below_root(std::string_view rest, bool hidden);

/// Whether a directory's entry of this name has a path of its own.
[[nodiscard]] bool is_served_name(std::string_view name, bool hidden) noexcept;

/// A directory that stays open.
///
/// Thread-safety: any number of threads may call open().
class root_directory {
 public:
  enum class symlinks : std::uint8_t {
    refuse,
    inside,  ///< those are followed that stay below the root; none on kernels without openat2(2)
  };
  enum class lookup_scope : std::uint8_t {
    any,
    cached,  ///< fails with EAGAIN if the call might wait for a disk
  };

  /// Throws std::system_error with the path.
  root_directory(const std::string& path, symlinks followed);

  /// Opens a file or directory to read it, or gives the error number. `path`: a result of
  /// path_below_root(); empty for the root. Does not wait for the other end of a FIFO.
  [[nodiscard]] std::expected<unique_fd, int> open(const std::string& path,
                                                   lookup_scope scope) const noexcept;
  /// As open(), on a kernel without openat2(2): opens one segment after the other, and follows no
  /// symlink.
  [[nodiscard]] std::expected<unique_fd, int> open_by_segments(std::string_view path) const;

 private:
  unique_fd root_;
  symlinks symlinks_;
  // Features of the kernel. relaxed: hints that save calls.
  mutable gyre::detail::atomic<bool> has_openat2_{true};
  mutable gyre::detail::atomic<bool> has_cached_{true};
};

}  // namespace gyre::http::detail
