// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/stream.hpp>

#include <gyre/base/error.hpp>

#include <fcntl.h>
#include <unistd.h>

namespace gyre::io {

stream::stream(event_loop& loop, unique_fd fd, handle_kind kind)
    : descriptor_(std::make_unique<detail::open_descriptor>(loop, made_non_blocking(std::move(fd)),
                                                            kind)) {}

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
