// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/file_service.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace gyre::io {
namespace {

std::int64_t make(const file_command& of) noexcept {
  using enum file_call_kind;
  switch (of.kind) {
    case open: return ::open(static_cast<const char*>(of.memory), of.flags, of.mode);
    case read: return ::pread(of.fd, of.memory, of.size, static_cast<::off_t>(of.offset));
    case write: return ::pwrite(of.fd, of.memory, of.size, static_cast<::off_t>(of.offset));
    case status:
      return ::statx(of.fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS,
                     static_cast<struct ::statx*>(of.memory));
    case sync: return ::fsync(of.fd);
    case sync_data: return ::fdatasync(of.fd);
    case truncate: return ::ftruncate(of.fd, static_cast<::off_t>(of.offset));
    case close: return ::close(of.fd);
  }
  std::unreachable();
}

}  // namespace

result perform(const file_command& command) noexcept {
  for (;;) {
    const result made = result::of_call(make(command));
    if (made.error_number() != EINTR || command.kind == file_call_kind::close) return made;
  }
}

}  // namespace gyre::io
