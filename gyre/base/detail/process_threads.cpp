// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/process_threads.hpp>

#include <gyre/base/unique_fd.hpp>

#include <dirent.h>
#include <fcntl.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace gyre::detail {

bool is_single_threaded() noexcept {
  constexpr int entries_of_one_thread = 3;  // the thread, "." and ".."
  const unique_fd tasks(::open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!tasks) return false;
  alignas(::dirent64) std::array<char, 1024> listing;
  const ssize_t size = ::getdents64(tasks.get(), listing.data(), listing.size());
  int entries = 0;
  for (ssize_t position = 0; position < size; ++entries) {
    unsigned short length = 0;
    std::memcpy(&length, listing.data() + position + offsetof(::dirent64, d_reclen), sizeof length);
    position += length;
  }
  return entries == entries_of_one_thread;
}

}  // namespace gyre::detail
