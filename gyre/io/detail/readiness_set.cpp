// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/readiness_set.hpp>

#include <gyre/base/error.hpp>

#include <cstdint>

namespace gyre::io::detail {
namespace {

std::uint32_t events_for(readiness interest, trigger mode) noexcept {
  std::uint32_t events = mode == trigger::edge ? static_cast<std::uint32_t>(EPOLLET) : 0u;
  if (contains(interest, readiness::readable)) events |= EPOLLIN | EPOLLRDHUP;
  if (contains(interest, readiness::writable)) events |= EPOLLOUT;
  return events;
}

readiness readiness_of(std::uint32_t events) noexcept {
  readiness ready = readiness::none;
  if (events & EPOLLIN) ready = ready | readiness::readable;
  if (events & EPOLLOUT) ready = ready | readiness::writable;
  if (events & EPOLLERR) ready = ready | readiness::error;
  if (events & (EPOLLHUP | EPOLLRDHUP)) ready = ready | readiness::hang_up;
  return ready;
}

}  // namespace

unique_fd readiness_set::make_epoll() {
  unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) gyre::detail::throw_errno("epoll_create1");
  return epoll;
}

void readiness_set::use(int epoll) {
  epoll_ = epoll;
  for (readiness_operation& op : watched_) control(EPOLL_CTL_ADD, op, op.interest(), op.mode());
}

void readiness_set::watch(readiness_operation& op, readiness interest, trigger mode) {
  control(EPOLL_CTL_ADD, op, interest, mode);
  op.set_interest(interest, mode);
  watched_.push_back(op);
  ++count_;
}

void readiness_set::rewatch(readiness_operation& op, readiness interest, trigger mode) {
  control(EPOLL_CTL_MOD, op, interest, mode);
  op.set_interest(interest, mode);
}

void readiness_set::unwatch(readiness_operation& op) noexcept {
  if (!op.is_linked()) return;
  // Fails where the descriptor has been closed already; then the kernel has forgotten it too.
  epoll_event ignored{};
  static_cast<void>(::epoll_ctl(epoll_, EPOLL_CTL_DEL, op.fd(), &ignored));
  op.unlink();
  --count_;
  for (epoll_event& event : reported_) {
    if (event.data.ptr == &op) event.data.ptr = nullptr;
  }
}

void readiness_set::report(const epoll_event& event, std::size_t& completed) {
  auto& op = *static_cast<readiness_operation*>(event.data.ptr);
  // The interest may have changed after the wait.
  const readiness unasked = readiness::error | readiness::hang_up;
  const readiness ready = readiness_of(event.events) & (op.interest() | unasked);
  if (ready == readiness::none) return;
  ++completed;
  op.complete(ready);
}

void readiness_set::control(int operation, readiness_operation& op, readiness interest,
                            trigger mode) const {
  epoll_event event{};
  event.events = events_for(interest, mode);
  event.data.ptr = &op;
  if (::epoll_ctl(epoll_, operation, op.fd(), &event) != 0) gyre::detail::throw_errno("epoll_ctl");
}

}  // namespace gyre::io::detail
