// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/fd_watch.hpp>

#include <utility>

namespace gyre {

fd_watch::fd_watch(event_loop& loop, int fd, function callback) noexcept
    : loop_(loop), node_(*this, fd), callback_(std::move(callback)) {}

fd_watch::~fd_watch() { stop(); }

void fd_watch::start(readiness interest, trigger mode) {
  if (active()) {
    loop_.rewatch(node_, interest, mode);
  } else {
    loop_.watch(node_, interest, mode);
  }
}

bool fd_watch::stop() noexcept {
  const bool was_active = active();
  loop_.unwatch(node_);
  return was_active;
}

void fd_watch::complete(readiness_operation& operation, readiness events) {
  static_cast<node&>(operation).self->callback_(events);
}

}  // namespace gyre
