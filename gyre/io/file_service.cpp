// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/file_service.hpp>

#include <gyre/io/detail/system_files.hpp>

#include <utility>

namespace gyre::io {
namespace {

result result_of(int error) noexcept { return error == 0 ? result::of(0) : result::failure(error); }

}  // namespace

result perform(const file_command& command) noexcept {
  namespace system = detail::system;
  const int fd = command.fd;
  auto* const bytes = static_cast<std::byte*>(command.memory);
  switch (command.kind) {
    using enum file_call_kind;
    case open: {
      auto file =
          system::open(static_cast<const char*>(command.memory), command.flags, command.mode);
      return file ? result::of(static_cast<std::size_t>(file->release()))
                  : result::failure(file.error());
    }
    case read: return system::read_at(fd, {bytes, command.size}, command.offset);
    case write: return system::write_at(fd, {bytes, command.size}, command.offset);
    case status: {
      const auto result = system::status_of(fd, STATX_BASIC_STATS);
      if (result) *static_cast<struct ::statx*>(command.memory) = *result;
      return result_of(result ? 0 : result.error());
    }
    case sync: return result_of(system::sync(fd));
    case sync_data: return result_of(system::sync_data(fd));
    case truncate: return result_of(system::truncate(fd, command.offset));
    case close: return result_of(system::close(fd));
  }
  std::unreachable();
}

}  // namespace gyre::io
