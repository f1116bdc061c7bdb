// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/descriptor.hpp>

#include <gyre/base/error.hpp>

#include <fcntl.h>

#include <system_error>

namespace gyre::io {

backend& backend_of(event_loop& loop) {
  backend* const found = loop.io();
  if (found != nullptr) return *found;
  throw std::system_error(std::make_error_code(std::errc::operation_not_supported),
                          "this loop's poller cannot read and write");
}

unique_fd made_non_blocking(unique_fd fd) {
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0) gyre::detail::throw_errno("fcntl");
  if ((flags & O_NONBLOCK) == 0 && ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    gyre::detail::throw_errno("fcntl");
  }
  return fd;
}

}  // namespace gyre::io
