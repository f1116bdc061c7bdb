// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/file_service.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace gyre::io {
namespace {

std::int64_t call(const file_command& command) noexcept {
  using enum file_call_kind;
  switch (command.kind) {
    case open: return ::open(static_cast<const char*>(command.memory), command.flags, command.mode);
    case read:
      return ::pread(command.fd, command.memory, command.size,
                     static_cast<::off_t>(command.offset));
    case write:
      return ::pwrite(command.fd, command.memory, command.size,
                      static_cast<::off_t>(command.offset));
    case status:
      return ::statx(command.fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS,
                     static_cast<struct ::statx*>(command.memory));
    case sync: return ::fsync(command.fd);
    case sync_data: return ::fdatasync(command.fd);
    case truncate: return ::ftruncate(command.fd, static_cast<::off_t>(command.offset));
    case close: return ::close(command.fd);
  }
  std::unreachable();
}

}  // namespace

result perform(const file_command& command) noexcept {
  for (;;) {
    const result outcome = result::of_call(call(command));
    if (outcome.error_number() != EINTR || command.kind == file_call_kind::close) return outcome;
  }
}

}  // namespace gyre::io
