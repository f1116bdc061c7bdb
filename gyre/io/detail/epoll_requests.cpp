// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/epoll_requests.hpp>

#include <poll.h>

#include <gyre/base/error.hpp>

namespace gyre::io::detail {

static_assert(EPOLLIN == POLLIN && EPOLLPRI == POLLPRI && EPOLLOUT == POLLOUT &&
              EPOLLERR == POLLERR && EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP);

// Whether there is something to read, epoll reports at once.
void epoll_requests::add_to_epoll(int epoll, handle& served) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | static_cast<std::uint32_t>(EPOLLET);
  event.data.u64 = tagged(served);
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, served.fd(), &event) != 0) {
    gyre::detail::throw_errno("epoll_ctl");
  }
}

void epoll_requests::end(handle& served) noexcept {
  // Fails where the descriptor has been closed already; then the kernel has forgotten it too.
  epoll_event ignored{};
  static_cast<void>(::epoll_ctl(epoll_, EPOLL_CTL_DEL, served.fd(), &ignored));
  for (epoll_event& event : reported_) {
    if (event.data.u64 == tagged(served)) event.data.u64 = 0;
  }
}

void epoll_requests::use(int epoll) {
  epoll_ = epoll;
  for (handle* each : all()) {
    if (each != nullptr) add_to_epoll(epoll, *each);
  }
}

}  // namespace gyre::io::detail
