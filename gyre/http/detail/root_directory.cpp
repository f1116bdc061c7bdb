// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/root_directory.hpp>

#include <gyre/base/error.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/percent_encoding.hpp>
#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <linux/openat2.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <new>
#include <span>
#include <system_error>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

namespace gyre::http::detail {
namespace {

namespace system = io::detail::system;

// O_NONBLOCK keeps the open of a FIFO from waiting. O_NOCTTY keeps a terminal from becoming the
// controlling terminal of the program.
constexpr int open_flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
// openat2(2) fails with EAGAIN if directories are moved during the lookup, which is then repeated.
constexpr int max_attempts = 8;

// Whether openat2(2) can be used at all. EPERM is ambiguous: containers that do not know the call
// return EPERM, and so does a file scanner (fanotify) for a single file.
bool may_use_openat2(int directory) noexcept {
  const auto fd = system::open_beneath(directory, ".", O_PATH | O_DIRECTORY, RESOLVE_BENEATH);
  return fd || (fd.error() != ENOSYS && fd.error() != EPERM);
}

}  // namespace

bool is_served_name(std::string_view name, bool serves_hidden) noexcept {
  if (name.empty() || name == "." || name == "..") return false;
  if (name.front() == '.' && !serves_hidden) return false;
  return std::ranges::none_of(name, [](char character) {
    return character == '/' || character == '\\' || character == '\0';
  });
}

std::optional<std::string> path_below_root(std::string_view rest, bool serves_hidden) {
  std::string path(rest.size(), '\0');
  std::size_t size = 0;
  while (!rest.empty()) {
    const std::size_t end = rest.find('/');
    const auto name = percent_decode(rest.substr(0, end), std::span(path).subspan(size));
    if (!name || !is_served_name(*name, serves_hidden)) return std::nullopt;
    size += name->size();
    if (end == std::string_view::npos) break;
    path[size++] = '/';
    rest.remove_prefix(end + 1);
  }
  path.resize(size);
  return path;
}

root_directory::root_directory(const std::string& path, symlinks followed_symlinks)
    : root_(system::value_or_throw(system::open(path.c_str(), O_PATH | O_DIRECTORY),
                                   ("http::file_server: open " + path).c_str())),
      symlinks_(followed_symlinks) {}

std::expected<unique_fd, int> root_directory::open(const std::string& path,
                                                   lookup_scope scope) const noexcept {
  if (!has_openat2_.load(std::memory_order_relaxed)) {
    if (scope == lookup_scope::cached) return std::unexpected(EAGAIN);
    try {
      return open_by_segments(path);
    } catch (const std::bad_alloc&) {
      return std::unexpected(ENOMEM);
    }
  }
  if (scope == lookup_scope::cached && !has_cached_.load(std::memory_order_relaxed)) {
    return std::unexpected(EAGAIN);
  }
  std::uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (symlinks_ == symlinks::refuse) resolve |= RESOLVE_NO_SYMLINKS;
  if (scope == lookup_scope::cached) resolve |= RESOLVE_CACHED;
  const char* const name = path.empty() ? "." : path.c_str();
  for (int attempt = 0;;) {
    auto fd = system::open_beneath(root_.get(), name, open_flags, resolve);
    if (fd) return fd;
    const int error = fd.error();
    if (error == ENOSYS || error == EPERM) {
      if (may_use_openat2(root_.get())) return std::unexpected(EPERM);
      has_openat2_.store(false, std::memory_order_relaxed);
      return open(path, scope);
    }
    if (scope == lookup_scope::cached) {
      if (error == EINVAL) has_cached_.store(false, std::memory_order_relaxed);
      return std::unexpected(error == EINVAL ? EAGAIN : error);
    }
    if (error != EAGAIN || ++attempt == max_attempts) return fd;
  }
}

std::expected<unique_fd, int> root_directory::open_by_segments(std::string_view path) const {
  unique_fd fd;
  std::string name;
  while (path.ends_with('/')) path.remove_suffix(1);
  do {
    name = path.empty() ? std::string_view(".") : take_until(path, '/');
    const int directory = fd ? fd.get() : root_.get();
    const int flags = (path.empty() ? open_flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW;
    auto child = system::open_at(directory, name.c_str(), flags);
    if (!child) return child;
    fd = *std::move(child);
  } while (!path.empty());
  return fd;
}

}  // namespace gyre::http::detail
