// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/descriptor.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/detail/open_descriptor.hpp>

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <span>
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

namespace detail {
namespace {

// A handle that is detached forgets them.
std::array<request*, 2> requests_under_way(const handle& target) noexcept {
  return {target.reader, target.writer};
}

void cancel_all(std::span<request* const> requests) {
  for (request* const each : requests) {
    if (each != nullptr) each->complete(result::failure(ECANCELED));
  }
}

}  // namespace

void open_descriptor::close() noexcept {
  const auto requests = requests_under_way(handle());
  descriptor::close();
  cancel_all(requests);
}

unique_fd open_descriptor::release() noexcept {
  const auto requests = requests_under_way(handle());
  unique_fd released = descriptor::release();
  cancel_all(requests);
  return released;
}

handle& target_of(open_descriptor* descriptor) noexcept {
  static io::handle none;
  return descriptor != nullptr ? descriptor->handle() : none;
}

open_descriptor& opened(const owned_descriptor& descriptor, const char* operation) {
  if (descriptor == nullptr || !descriptor->is_open()) {
    gyre::detail::throw_system_error(EBADF, operation);
  }
  return *descriptor;
}

}  // namespace detail
}  // namespace gyre::io
