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

/// The file or directory that a path names, or the reason why there is none.
struct found_file {
  enum class kind : std::uint8_t { file, directory, list, none };

  kind which = kind::none;
  int error = 0;  ///< of kind none; EAGAIN: only a lookup that may wait can find it
  unique_fd fd = {};
  std::uint64_t size = 0;
  std::chrono::sys_time<std::chrono::nanoseconds> modified = {};
  content_coding coding = content_coding::identity;
  std::string page = {};  ///< the HTML page of kind list
};

/// A root directory, and the options by which its files are served.
///
/// Thread-safety: any thread.
class site {
 public:
  site(const std::string& root, file_server_options settings);

  /// Finds the file for a request, or makes the page of a directory. `path`: a result of
  /// path_below_root(). `url_path`: the title of that page, encoded. Throws std::bad_alloc.
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

/// Returns an HTML page with the names in `directory`, or an error number.
[[nodiscard]] std::expected<std::string, int> list_directory(unique_fd directory,
                                                             std::string_view title,
                                                             const file_server_options& options);

}  // namespace gyre::http::detail
