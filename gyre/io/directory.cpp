// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/directory.hpp>

#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>

#include <cerrno>

namespace gyre::io {

detail::outcome_of<directory_reader> directory_reader::open_now(const std::string& path,
                                                                executor* pool) {
  auto fd = detail::system::open(path.c_str(), O_RDONLY | O_DIRECTORY);
  if (!fd) return detail::failure_of(fd.error());
  detail::open_directory directory(*std::move(fd));
  directory_reader reader;
  reader.listing_ = std::make_unique<detail::directory_listing>(path, std::move(directory));
  reader.pool_ = pool;
  return reader;
}

detail::outcome_of<std::span<directory_entry>> directory_reader::read_now(
    detail::directory_listing* listing, std::string& path) {
  path = listing != nullptr ? listing->path : "(not open)";
  if (listing == nullptr) return detail::failure_of(EBADF);
  std::size_t count = 0;
  do {
    const auto entry = listing->directory.next();
    if (!entry) return std::unexpected(entry.error());
    if (!*entry) break;
    if (count == listing->entries.size()) listing->entries.emplace_back();
    directory_entry& target = listing->entries[count++];
    target.name = (*entry)->name;
    target.type = (*entry)->type;
    target.inode = (*entry)->inode;
  } while (!listing->directory.needs_read());
  return std::span(listing->entries).first(count);
}

async_generator<directory_entry&> read_directory(std::string path, executor* pool) {
  auto open_task = directory_reader::open(std::move(path), pool);
  const directory_reader reader = co_await std::move(open_task);
  for (;;) {
    auto read_task = reader.next_batch();
    const std::span<directory_entry> batch = co_await std::move(read_task);
    if (batch.empty()) co_return;
    for (directory_entry& entry : batch) co_yield entry;
  }
}

}  // namespace gyre::io
