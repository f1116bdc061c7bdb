// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/stream.hpp>

#include <gyre/io/detail/system_files.hpp>

#include <fcntl.h>
#include <poll.h>

#include <memory>

namespace gyre::io {

stream::stream(event_loop& loop, unique_fd fd, handle_kind kind) {
  const int access = detail::set_non_blocking(fd.get()) & O_ACCMODE;
  descriptor_ = std::make_unique<detail::open_descriptor>(loop, std::move(fd), kind);
  if (access == O_WRONLY) descriptor_->handle().refuse(direction::read);
  if (access == O_RDONLY) descriptor_->handle().refuse(direction::write);
}

bool stream::is_quiet() const noexcept {
  return is_open() && !detail::system::has_events(fd(), POLLIN | POLLRDHUP);
}

event_loop& stream::loop() const {
  return detail::opened(descriptor_, "gyre::io::stream::loop").loop();
}

pipe make_pipe(event_loop& loop) {
  auto [read_end, write_end] =
      detail::system::value_or_throw(detail::system::make_pipe(O_NONBLOCK), "pipe2");
  return {stream(loop, std::move(read_end)), stream(loop, std::move(write_end))};
}

}  // namespace gyre::io
