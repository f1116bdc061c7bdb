// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/read_file.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/base/unique_fd.hpp>

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace gyre::detail {

std::expected<std::string, int> read_file(const char* path) {
  const unique_fd file(retry_interrupted([&] { return ::open(path, O_RDONLY | O_CLOEXEC); }));
  if (!file) return std::unexpected(errno);
  std::string content;
  for (std::array<char, 4096> piece;;) {
    const ssize_t count =
        retry_interrupted([&] { return ::read(file.get(), piece.data(), piece.size()); });
    if (count < 0) return std::unexpected(errno);
    if (count == 0) return content;
    content.append(piece.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace gyre::detail
