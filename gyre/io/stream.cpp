// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/stream.hpp>

#include <gyre/base/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <memory>

namespace gyre::io {

stream::stream(event_loop& loop, unique_fd fd, handle_kind kind) {
  const int access = detail::set_non_blocking(fd.get()) & O_ACCMODE;
  descriptor_ = std::make_unique<detail::open_descriptor>(loop, std::move(fd), kind);
  if (access == O_WRONLY) descriptor_->handle().refuse(direction::read);
  if (access == O_RDONLY) descriptor_->handle().refuse(direction::write);
}

bool stream::is_quiet() const noexcept {
  pollfd idle{.fd = fd(), .events = POLLIN | POLLRDHUP, .revents = 0};
  return is_open() && ::poll(&idle, 1, 0) == 0;
}

event_loop& stream::loop() const {
  return detail::opened(descriptor_, "gyre::io::stream::loop").loop();
}

pipe make_pipe(event_loop& loop) {
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) gyre::detail::throw_errno("pipe2");
  unique_fd read_end(ends[0]);
  unique_fd write_end(ends[1]);
  return {stream(loop, std::move(read_end)), stream(loop, std::move(write_end))};
}

}  // namespace gyre::io
