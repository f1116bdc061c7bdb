// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/temporary.hpp>

#include <gyre/io/detail/random_name.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/detail/system_processes.hpp>
#include <gyre/io/file_system.hpp>

#include <fcntl.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): secure_getenv

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace gyre::io {
namespace {

// A set-user-ID program ignores TMPDIR, because its caller has set the environment.
std::string temporary_folder() {
  const char* const folder = ::secure_getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

std::string prefix_in(const std::string& folder) {
  return folder + (folder.ends_with('/') ? "gyre-" : "/gyre-");
}

}  // namespace

detail::outcome_of<file> detail::open_temporary_file(path_arguments& arguments) {
  if (arguments.path.empty()) arguments.path = temporary_folder();
  auto fd = system::open(arguments.path.c_str(), O_RDWR | O_TMPFILE, 0600);
  int error = fd ? 0 : fd.error();
  // EISDIR comes from kernels and file systems that take O_TMPFILE for O_DIRECTORY.
  if (error == EOPNOTSUPP || error == EISDIR) {
    error = make_with_random_name(prefix_in(arguments.path), [&](const std::string& path) {
      fd = system::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
      return fd ? system::unlink_at(AT_FDCWD, path.c_str(), 0) : fd.error();
    });
  }
  if (error != 0) return failure_of(error);
  return file(*std::move(fd));
}

detail::outcome_of<temporary_directory> detail::make_temporary_directory(
    path_arguments& arguments) {
  if (arguments.path.empty()) arguments.path = temporary_folder();
  if (!arguments.path.starts_with('/')) {  // an absolute path stays valid after a chdir()
    std::error_code error;
    arguments.path = std::filesystem::absolute(arguments.path, error);
    if (error) return std::unexpected(error);
  }
  temporary_directory directory;
  const int error = make_with_random_name(prefix_in(arguments.path), [&](const std::string& path) {
    const int failure = system::make_directory_at(AT_FDCWD, path.c_str(), 0700);
    if (failure == 0) directory.path_ = path;
    return failure;
  });
  if (error != 0) return failure_of(error);
  directory.process_ = system::process_id();
  return directory;
}

temporary_directory::~temporary_directory() {
  if (path_.empty() || process_ != detail::system::process_id()) return;
  static_cast<void>(detail::remove_tree(std::move(path_)));
}

std::string temporary_directory::operator/(std::string_view name) const {
  if (path_.empty()) {
    throw std::logic_error(
        "gyre::io::temporary_directory: has no directory: default-constructed, moved from, removed "
        "or released");
  }
  std::string path;
  path.reserve(path_.size() + 1 + name.size());
  return path.append(path_).append(1, '/').append(name);
}

task<> temporary_directory::remove(executor* pool) {
  auto remove_task = remove_all(path_, pool);
  co_await std::move(remove_task);
  path_.clear();
}

}  // namespace gyre::io
