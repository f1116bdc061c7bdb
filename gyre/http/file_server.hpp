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

/// Options of a file_server, fixed at its construction.
struct file_server_options {
  /// The name of the route's parameter that holds the path below the root.
  std::string parameter = "path";
  /// The name of the file that is served for a directory that contains it. Empty: none.
  std::string index = "index.html";
  /// Responds to a directory without index with a page that lists at most `list_limit` names,
  /// instead of 403.
  bool list_directories = false;
  std::size_t list_limit = 10'000;
  /// Serves and lists names that begin with a dot, such as ".well-known".
  bool hidden_files = false;
  /// Follows symlinks whose targets are below the root, on Linux 5.6 and newer. Otherwise every
  /// symlink below the root gets a 404.
  bool follow_symlinks = false;
  /// Serves "page.html.br", ".zst" or ".gz" instead of "page.html" to clients that accept the
  /// coding, if the compressed file exists and is not older.
  bool precompressed = false;
  /// The value of Cache-Control for files; empty: no such field.
  std::string cache_control = {};
};

/// A handler for a GET route whose pattern ends with `{path...}`. Its responses:
/// - a regular file: its bytes, sent by the kernel (sendfile), with Content-Type by the file's
///   name, ETag, Last-Modified and `X-Content-Type-Options: nosniff`; 304 or 412 to a conditional
///   request; 206 or 416 to a request with Range (one range by sendfile, up to 16 as
///   multipart/byteranges);
/// - a directory: its index or list; if the path has no '/' at its end, a redirect to the path with
///   '/';
/// - 403, if the program may not read the file, or may not list the directory;
/// - 503, if file descriptors or memory are exhausted, or reading the disk failed;
/// - 404 for everything else: FIFOs, devices, sockets, paths with an empty segment, hidden files,
///   and symlinks.
///
/// No path leads out of the root: segments are decoded one by one, and segments that are "." or
/// ".." or contain '/', '\\' or a zero byte are refused. The kernel then resolves the path
/// (openat2(2), RESOLVE_BENEATH); on kernels without openat2() each segment is opened separately.
///
/// The ETag consists of the modification time and the size. It is strong, but weak within two
/// seconds of the last modification, because the file may change again without changing either.
/// Replace files by rename(2): if a file is truncated while it is sent, the connection is closed.
/// Last-Modified is never later than the Date, even if the file's modification time is. If-Range is
/// honoured only with a strong ETag, because a file may change twice within the second of a date.
///
/// Thread-safety: the loops of a server may call it at the same time. Copies share the root.
/// Lifetime: must outlive its calls, as a handler of a server does. The root stays open until the
/// last copy is destroyed; if its directory is renamed and replaced, the original one is still
/// served.
/// Errors: the constructor throws std::system_error if `root` is not a directory that can be
/// opened. A route without the parameter gets a 500.
/// Complexity: paths whose names the kernel has cached are opened on the loop (RESOLVE_CACHED,
/// Linux 5.12) in three system calls. Other paths, and lists, are opened on a thread of
/// io::blocking_pool(), which a slow disk may block. Measured: 12 us for the three calls; the
/// switches to the pool and back add 24 us.
class file_server {
 public:
  explicit file_server(const std::string& root, file_server_options options = {});

  task<response> operator()(request& request) const;

 private:
  std::shared_ptr<const detail::site> site_;
};

}  // namespace gyre::http
