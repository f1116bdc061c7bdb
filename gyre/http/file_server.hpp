// SPDX-License-Identifier: Apache-2.0
// file_server: a handler that serves the files below a directory.
//
//     const gyre::http::file_server_options options{.list_directories = true, .precompressed = true};
//     server.get("/{path...}", gyre::http::file_server(folder, options));
#pragma once

#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace gyre::http {

namespace detail {
class site;
}  // namespace detail

/// Options of a file_server, fixed when it is constructed.
struct file_server_options {
  /// The name of the route's segment that is the path below the root.
  std::string parameter = "path";
  /// Served for a directory, if it has a file of that name. Empty: none.
  std::string index = "index.html";
  /// Answers a directory without index by a page that lists it, in place of 403: at most
  /// `list_limit` names.
  bool list_directories = false;
  std::size_t list_limit = 10'000;
  /// Serves names that begin with a dot, such as ".well-known", and lists them.
  bool hidden_files = false;
  /// Follows symlinks whose targets are below the root, on Linux 5.6 and newer. Otherwise all
  /// symlinks below the root are answered by 404.
  bool follow_symlinks = false;
  /// Serves "page.html.br", ".zst" or ".gz", where there is one that is not older, in place of
  /// "page.html" to clients that accept the coding.
  bool precompressed = false;
  /// The field Cache-Control of files; empty: none.
  std::string cache_control = {};
};

/// A handler for a route of GET whose pattern ends with `{path...}`. It answers
/// - a regular file by its bytes, which the kernel sends (sendfile), with Content-Type by its name,
///   ETag, Last-Modified and `X-Content-Type-Options: nosniff`; or, to a request with conditions,
///   by 304 or 412; or, to one with Range, by 206 or 416: one range by sendfile, up to 16 as
///   multipart/byteranges,
/// - a directory by its index or list; if the path lacks the '/' at the end, by a redirection to
///   the path with it,
/// - 403, if the program may not read the file, or may not list the directory,
/// - 503, if there are no descriptors or no memory,
/// - all else by 404: what is no regular file (FIFOs, devices, sockets), paths with an empty
///   segment, hidden files, and symlinks.
///
/// No path leads out of the root: segments are decoded one by one, and one with '/', '\\' or a zero
/// byte in it, "." and ".." are refused; then the kernel resolves the path (openat2(2),
/// RESOLVE_BENEATH), or each segment alone where it does not know that call.
///
/// The ETag is strong, of the modification time and the size; weak within two seconds of the last
/// modification, as the file may change again without changing them. Replace files by rename(2):
/// a file that is cut while it is sent ends the connection. Last-Modified is never later than the
/// Date, even if the file's own time is. If-Range counts with a strong ETag only, as a file may
/// change twice within the second of a date.
///
/// Thread-safety: the loops of a server may call it at the same time. Copies share the root.
/// Lifetime: must outlive its calls, as a handler of a server does. The root stays open until the
/// last copy is destroyed; if another directory gets its name, the former one is served.
/// Errors: the constructor throws std::system_error if `root` is no directory that can be opened.
/// A route without the parameter is answered by 500.
/// Complexity: paths whose names the kernel has cached are opened on the loop (RESOLVE_CACHED,
/// Linux 5.12), in three system calls; others, and lists, on a thread of io::blocking_pool(), which
/// a slow disk may hold. Measured: 12 us for the three calls; the pool's switches of threads take
/// 24 us more.
class file_server {
 public:
  explicit file_server(const std::string& root, file_server_options options = {});

  task<response> operator()(request& request) const;

 private:
  std::shared_ptr<const detail::site> site_;
};

}  // namespace gyre::http
