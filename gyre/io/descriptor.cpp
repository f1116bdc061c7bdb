// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/descriptor.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>

#include <system_error>

namespace gyre::io {

backend& backend_of(event_loop& loop) {
  backend* const io = loop.io();
  if (io != nullptr) return *io;
  throw std::system_error(std::make_error_code(std::errc::operation_not_supported),
                          "this loop's poller cannot read and write");
}

int detail::set_non_blocking(int fd) {
  const int flags = system::value_or_throw(system::flags_of(fd), "fcntl");
  if ((flags & O_NONBLOCK) != 0) return flags;
  const int error = system::set_flags(fd, flags | O_NONBLOCK);
  if (error != 0) gyre::detail::throw_system_error(error, "fcntl");
  return flags;
}

unique_fd made_non_blocking(unique_fd fd) {
  detail::set_non_blocking(fd.get());
  return fd;
}

}  // namespace gyre::io
