// SPDX-License-Identifier: Apache-2.0
// site: finds the files of a file_server.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/http/content_coding.hpp>
#include <gyre/http/detail/root_directory.hpp>
#include <gyre/http/file_server.hpp>

#include <chrono>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace gyre::http::detail {

/// A file or directory that a path names, or why there is none.
struct found_file {
  enum class kind : std::uint8_t { file, directory, list, none };

  kind which = kind::none;
  int error = 0;  ///< of none; EAGAIN: it can only be found by a lookup that may wait
  unique_fd fd = {};
  std::uint64_t size = 0;
  std::chrono::sys_time<std::chrono::nanoseconds> modified = {};
  content_coding coding = content_coding::identity;
  std::string page = {};  ///< of a list
};

/// A root and how it is served.
///
/// Thread-safety: any thread.
class site {
 public:
  site(const std::string& root, file_server_options settings);

  /// `path`: a result of path_below_root(). `url_path`: the title of a list, encoded. Throws
  /// std::bad_alloc.
  [[nodiscard]] found_file find(const std::string& path, std::string_view accept_encoding,
                                std::string_view url_path,
                                root_directory::lookup_scope scope) const;

  const file_server_options options;

 private:
  using lookup_scope = root_directory::lookup_scope;

  [[nodiscard]] found_file open(const std::string& path, lookup_scope scope) const;
  [[nodiscard]] found_file open_coded(const std::string& path, found_file plain,
                                      std::string_view accept_encoding, lookup_scope scope) const;
  [[nodiscard]] found_file list(const std::string& path, std::string_view url_path,
                                lookup_scope scope) const;

  root_directory root_;
};

/// An HTML page with the names of a directory, which closes the descriptor. Fails with an error
/// number.
[[nodiscard]] std::expected<std::string, int> list_directory(unique_fd directory,
                                                             std::string_view title,
                                                             const file_server_options& options);

}  // namespace gyre::http::detail
