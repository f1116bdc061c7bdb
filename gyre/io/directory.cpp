// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/directory.hpp>

#include <gyre/base/detail/retry_interrupted.hpp>

#include <fcntl.h>

#include <cerrno>
#include <optional>

namespace gyre::io {

detail::outcome_of<void> detail::directory_listing::open() {
  if (path.contains('\0')) return failure_of(EINVAL);
  unique_fd fd(gyre::detail::retry_interrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd) return failure_of(errno);
  directory = open_directory(std::move(fd));
  return {};
}

detail::outcome_of<std::span<directory_entry>> detail::directory_listing::read() {
  std::size_t count = 0;
  do {
    const outcome_of<std::optional<raw_entry>> entry = directory.next();
    if (!entry) return std::unexpected(entry.error());
    if (!*entry) break;
    if (count == entries.size()) entries.emplace_back();
    directory_entry& kept = entries[count++];
    kept.name = (*entry)->name;
    kept.type = (*entry)->type;
    kept.inode = (*entry)->inode;
  } while (!directory.needs_read());
  return std::span(entries).first(count);
}

async_generator<directory_entry&> read_directory(std::string path, executor* pool) {
  auto opening = directory_reader::open(std::move(path), pool);
  const directory_reader reader = co_await std::move(opening);
  for (;;) {
    auto reading = reader.next_batch();
    const std::span<directory_entry> batch = co_await std::move(reading);
    if (batch.empty()) co_return;
    for (directory_entry& each : batch) co_yield each;
  }
}

}  // namespace gyre::io
