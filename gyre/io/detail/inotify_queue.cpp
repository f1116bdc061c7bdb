// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/inotify_queue.hpp>

#include <gyre/base/detail/read_file.hpp>
#include <gyre/base/error.hpp>
#include <gyre/io/detail/system_files.hpp>

#include <sys/inotify.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

namespace gyre::io::detail {
namespace {

constexpr std::size_t max_record_size = sizeof(inotify_event) + NAME_MAX + 1;

std::expected<std::vector<int>, int> descriptors_of(int inotify) {
  std::array<char, 40> path;
  std::snprintf(path.data(), path.size(), "/proc/self/fdinfo/%d", inotify);
  const auto content = gyre::detail::read_file(path.data());
  if (!content) return std::unexpected(content.error());
  std::vector<int> descriptors;
  constexpr std::string_view mark = "inotify wd:";
  for (std::size_t begin = content->find(mark); begin != content->npos;
       begin = content->find(mark, begin)) {
    begin += mark.size();
    int watch_descriptor = 0;
    constexpr int base = 16;
    std::from_chars(content->data() + begin, content->data() + content->size(), watch_descriptor,
                    base);
    descriptors.push_back(watch_descriptor);
  }
  std::ranges::sort(descriptors);
  return descriptors;
}

}  // namespace

inotify_queue::inotify_queue()
    : descriptor_(
          system::value_or_throw(system::open_inotify(),
                                 "gyre::io::file_watcher: inotify_init1 (limits: the sysctl "
                                 "fs.inotify.max_user_instances, and ulimit -n)")) {}

std::expected<std::vector<int>, int> inotify_queue::descriptors() const {
  const auto descriptors = descriptors_of(fd());
  if (!descriptors || !descriptors->empty()) return descriptors;
  // The list is empty: either all watches have ended, or this kernel lists none. A new watch shows
  // which.
  const auto watch_descriptor = system::add_watch(fd(), "/", IN_DELETE_SELF);
  if (!watch_descriptor) return std::unexpected(watch_descriptor.error());
  const auto with_one = descriptors_of(fd());
  system::remove_watch(fd(), *watch_descriptor);
  if (!with_one || !with_one->empty()) return with_one;
  return std::unexpected(ENOSYS);
}

bool inotify_queue::can_read() const noexcept {
  return records_.size() - (end_ - first_) >= max_record_size;
}

bool inotify_queue::read() {
  if (first_ > 0) {
    std::memmove(records_.data(), records_.data() + first_, end_ - first_);
    end_ -= std::exchange(first_, 0);
  }
  if (!can_read()) return false;
  const result outcome = system::read(fd(), std::span(records_).subspan(end_));
  if (outcome.would_block()) return false;
  if (!outcome) {
    gyre::detail::throw_system_error(outcome.error_number(), "gyre::io::file_watcher: read");
  }
  end_ += outcome.count();
  return outcome.count() > 0;
}

inotify_record inotify_queue::take_front() noexcept {
  const inotify_record front = record_at(first_);
  first_ += size_at(first_);
  return front;
}

std::optional<inotify_record> inotify_queue::take_other_part() noexcept {
  const std::uint32_t cookie = record_at(first_).cookie;
  for (std::size_t position = first_; position != end_; position += size_at(position)) {
    const inotify_record record = record_at(position);
    if ((record.mask & IN_MOVED_TO) == 0 || record.cookie != cookie) continue;
    constexpr std::uint32_t empty_wait = 0;
    std::memcpy(records_.data() + position + offsetof(inotify_event, mask), &empty_wait,
                sizeof empty_wait);
    return record;
  }
  return std::nullopt;
}

namespace {

inotify_event header_at(const std::byte* record) noexcept {
  inotify_event header;
  std::memcpy(&header, record, sizeof header);
  return header;
}

}  // namespace

inotify_record inotify_queue::record_at(std::size_t position) const noexcept {
  const std::byte* const record = records_.data() + position;
  const inotify_event header = header_at(record);
  const char* const name = reinterpret_cast<const char*>(record + sizeof header);
  return {.watch_descriptor = header.wd,
          .mask = header.mask,
          .cookie = header.cookie,
          .name = {name, ::strnlen(name, header.len)}};
}

std::size_t inotify_queue::size_at(std::size_t position) const noexcept {
  return sizeof(inotify_event) + header_at(records_.data() + position).len;
}

}  // namespace gyre::io::detail
