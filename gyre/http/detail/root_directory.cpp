// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/root_directory.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/percent_encoding.hpp>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

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

// O_NONBLOCK: of a FIFO. O_NOCTTY: a terminal must not become that of the program.
constexpr int open_flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
// Attempts, when directories are moved during a lookup.
constexpr int most_attempts = 8;

// Whether openat2(2) can be used at all. Containers that do not know the call refuse it with EPERM,
// and so does a scanner of files (fanotify) with a single file.
bool may_use_openat2(int directory) noexcept {
  ::open_how request{};
  request.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  request.resolve = RESOLVE_BENEATH;
  const unique_fd opened(
      static_cast<int>(::syscall(SYS_openat2, directory, ".", &request, sizeof request)));
  return opened || (errno != ENOSYS && errno != EPERM);
}

}  // namespace

bool is_served_name(std::string_view name, bool hidden) noexcept {
  if (name.empty() || name == "." || name == "..") return false;
  if (name.front() == '.' && !hidden) return false;
  return std::ranges::none_of(
      name, [](char each) { return each == '/' || each == '\\' || each == '\0'; });
}

std::optional<std::string> path_below_root(std::string_view rest, bool hidden) {
  std::string path(rest.size(), '\0');
  std::size_t size = 0;
  while (!rest.empty()) {
    const std::size_t end = rest.find('/');
    const auto name = percent_decode(rest.substr(0, end), std::span(path).subspan(size));
    if (!name || !is_served_name(*name, hidden)) return std::nullopt;
    size += name->size();
    if (end == std::string_view::npos) break;
    path[size++] = '/';
    rest.remove_prefix(end + 1);
  }
  path.resize(size);
  return path;
}

root_directory::root_directory(const std::string& path, symlinks followed)
    : root_(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), symlinks_(followed) {
  if (!root_) {
    throw std::system_error(errno, std::system_category(), "http::file_server: open " + path);
  }
}

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
  ::open_how request{};
  request.flags = open_flags;
  request.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (symlinks_ == symlinks::refuse) request.resolve |= RESOLVE_NO_SYMLINKS;
  if (scope == lookup_scope::cached) request.resolve |= RESOLVE_CACHED;
  const char* const name = path.empty() ? "." : path.c_str();
  for (int attempt = 0;;) {
    const long opened = ::syscall(SYS_openat2, root_.get(), name, &request, sizeof request);
    if (opened >= 0) return unique_fd(static_cast<int>(opened));
    if (errno == EINTR) continue;
    if (errno == ENOSYS || errno == EPERM) {
      if (may_use_openat2(root_.get())) return std::unexpected(EPERM);
      has_openat2_.store(false, std::memory_order_relaxed);
      return open(path, scope);
    }
    if (scope == lookup_scope::cached) {
      if (errno == EINVAL) has_cached_.store(false, std::memory_order_relaxed);
      return std::unexpected(errno == EINVAL ? EAGAIN : errno);
    }
    if (errno != EAGAIN || ++attempt == most_attempts) return std::unexpected(errno);
  }
}

std::expected<unique_fd, int> root_directory::open_by_segments(std::string_view path) const {
  unique_fd opened;
  std::string name;
  while (path.ends_with('/')) path.remove_suffix(1);
  do {
    name = path.empty() ? std::string_view(".") : take_until(path, '/');
    const int from = opened ? opened.get() : root_.get();
    const int flags = (path.empty() ? open_flags : O_PATH | O_DIRECTORY | O_CLOEXEC) | O_NOFOLLOW;
    opened = unique_fd(
        gyre::detail::retry_interrupted([&] { return ::openat(from, name.c_str(), flags); }));
    if (!opened) return std::unexpected(errno);
  } while (!path.empty());
  return opened;
}

}  // namespace gyre::http::detail
