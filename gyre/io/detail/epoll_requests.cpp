// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/epoll_requests.hpp>

#include <gyre/base/error.hpp>

#include <poll.h>

namespace gyre::io::detail {

static_assert(EPOLLIN == POLLIN && EPOLLPRI == POLLPRI && EPOLLOUT == POLLOUT &&
              EPOLLERR == POLLERR && EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP);

// Data that is there already epoll reports at once.
void epoll_requests::add(handle& watched) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | static_cast<std::uint32_t>(EPOLLET);
  event.data.u64 = tagged(watched);
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, watched.fd(), &event) != 0) {
    gyre::detail::throw_errno("epoll_ctl");
  }
}

void epoll_requests::remove(handle& watched) noexcept {
  // Fails where the descriptor has been closed already; then the kernel has forgotten it too.
  epoll_event ignored{};
  static_cast<void>(::epoll_ctl(epoll_, EPOLL_CTL_DEL, watched.fd(), &ignored));
  for (epoll_event& event : reported_) {
    if (event.data.u64 == tagged(watched)) event.data.u64 = 0;
  }
}

void epoll_requests::use(int epoll) {
  epoll_ = epoll;
  for (handle* const each : handles()) {
    if (each != nullptr) add(*each);
  }
}

}  // namespace gyre::io::detail
