// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/fd_watch.hpp>

#include <utility>

namespace gyre {

fd_watch::fd_watch(event_loop& loop, int fd, function ready) noexcept
    : loop_(loop), operation_(*this, fd), ready_(std::move(ready)) {}

fd_watch::~fd_watch() { stop(); }

void fd_watch::start(readiness interest, trigger how) {
  if (active()) {
    loop_.rewatch(operation_, interest, how);
  } else {
    loop_.watch(operation_, interest, how);
  }
}

bool fd_watch::stop() noexcept {
  const bool was_active = active();
  loop_.unwatch(operation_);
  return was_active;
}

void fd_watch::complete(readiness_operation& completed, readiness ready) {
  static_cast<operation&>(completed).self->ready_(ready);
}

}  // namespace gyre
