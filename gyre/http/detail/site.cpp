// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/site.hpp>

#include <gyre/http/percent_encoding.hpp>
#include <gyre/io/detail/system_files.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

namespace gyre::http::detail {
namespace {

constexpr std::string_view extension_of(content_coding coding) noexcept {
  switch (coding) {
    case content_coding::gzip: return ".gz";
    case content_coding::zstd: return ".zst";
    case content_coding::br: return ".br";
    case content_coding::identity: break;
  }
  return {};
}

found_file failure(int error) { return {.error = error}; }

}  // namespace

site::site(const std::string& root, file_server_options settings)
    : options(std::move(settings)),
      root_(root, options.follow_symlinks ? root_directory::symlinks::inside
                                          : root_directory::symlinks::refuse) {}

found_file site::open(const std::string& path, lookup_scope scope) const {
  auto fd = root_.open(path, scope);
  if (!fd) return failure(fd.error());
  const auto status =
      io::detail::system::status_of(fd->get(), STATX_TYPE | STATX_SIZE | STATX_MTIME);
  if (!status) return failure(status.error());
  found_file result{.fd = std::move(*fd)};
  if (S_ISDIR(status->stx_mode)) {
    result.which = found_file::kind::directory;
  } else if (S_ISREG(status->stx_mode)) {
    result.which = found_file::kind::file;
  } else {
    return failure(ENOENT);
  }
  using namespace std::chrono;
  result.size = status->stx_size;
  result.modified = sys_time<nanoseconds>(seconds(status->stx_mtime.tv_sec) +
                                          nanoseconds(status->stx_mtime.tv_nsec));
  return result;
}

found_file site::open_coded(const std::string& path, found_file plain,
                            std::string_view accept_encoding, lookup_scope scope) const {
  std::array<content_coding, all_codings.size()> codings = all_codings;
  std::size_t count = codings.size();
  while (count != 0) {
    const auto coding =
        negotiate_coding(accept_encoding, std::span<const content_coding>(codings.data(), count));
    if (!coding || *coding == content_coding::identity) break;
    found_file coded_file = open(path + std::string(extension_of(*coding)), scope);
    if (coded_file.error == EAGAIN) return coded_file;
    if (coded_file.which == found_file::kind::file && coded_file.modified >= plain.modified) {
      coded_file.coding = *coding;
      return coded_file;
    }
    const auto end = codings.begin() + static_cast<std::ptrdiff_t>(count);
    count = static_cast<std::size_t>(std::remove(codings.begin(), end, *coding) - codings.begin());
  }
  return plain;
}

found_file site::list(const std::string& path, std::string_view url_path,
                      lookup_scope scope) const {
  if (scope == lookup_scope::cached) return failure(EAGAIN);
  found_file result = open(path, scope);
  if (result.which != found_file::kind::directory) return failure(result.error);
  auto page = list_directory(std::move(result.fd), percent_decode(url_path).value_or(""), options);
  if (!page) return failure(page.error());
  result.which = found_file::kind::list;
  result.page = std::move(*page);
  return result;
}

found_file site::find(const std::string& path, std::string_view accept_encoding,
                      std::string_view url_path, lookup_scope scope) const {
  std::string file = path;
  if (path.empty() || path.ends_with('/')) {
    found_file index = failure(ENOENT);
    if (!options.index.empty()) {
      file += options.index;
      index = open(file, scope);
    }
    if (index.error == ENOENT || index.which == found_file::kind::directory) {
      if (options.list_directories) return list(path, url_path, scope);
      // A directory without an index or a listing gives EACCES; another path gives an error of its
      // own.
      index = open(path, scope);
      return failure(index.which == found_file::kind::directory ? EACCES : index.error);
    }
    if (index.which != found_file::kind::file) return index;
    return options.precompressed ? open_coded(file, std::move(index), accept_encoding, scope)
                                 : std::move(index);
  }
  found_file result = open(file, scope);
  if (result.which != found_file::kind::file || !options.precompressed) return result;
  return open_coded(file, std::move(result), accept_encoding, scope);
}

}  // namespace gyre::http::detail
