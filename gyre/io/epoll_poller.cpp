// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/epoll_poller.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include <gyre/base/error.hpp>
#include <gyre/io/detail/timespec.hpp>

namespace gyre::io {
namespace {

std::uint32_t events_for(readiness interest, trigger how) noexcept {
  std::uint32_t events = how == trigger::edge ? static_cast<std::uint32_t>(EPOLLET) : 0u;
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

int whole_milliseconds(std::chrono::nanoseconds left) noexcept {
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(rounded, INT_MAX));
}

}  // namespace

epoll_poller::epoll_poller() { open(); }

epoll_poller::~epoll_poller() { watched_.clear(); }

void epoll_poller::open() {
  unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) detail::throw_errno("epoll_create1");
  unique_fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) detail::throw_errno("eventfd");
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = nullptr;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    detail::throw_errno("epoll_ctl");
  }
  epoll_ = std::move(epoll);
  wake_ = std::move(wake);
}

steady_time epoll_poller::now() const noexcept { return detail::monotonic_now(); }

std::size_t epoll_poller::wait(steady_time deadline) {
  if (!reported_.empty()) return reported_.size();
  if (watched_count_ == 0) {
    if (deadline != steady_time::min()) parking_.park(deadline);
    return 0;
  }
  const int found = wait_for_events(deadline);
  if (found < 0) {
    if (errno == EINTR) return 0;
    detail::throw_errno("epoll_wait");
  }
  reported_ = std::span(events_).first(static_cast<std::size_t>(found));
  return reported_.size();
}

int epoll_poller::wait_for_events(steady_time deadline) {
  constexpr int most = static_cast<int>(most_events);
  if (deadline == steady_time::min()) return ::epoll_wait(epoll_.get(), events_.data(), most, 0);
  if (deadline == steady_time::max()) return ::epoll_wait(epoll_.get(), events_.data(), most, -1);
  const steady_time present = now();
  const auto left = deadline > present ? deadline - present : std::chrono::nanoseconds{0};
  if (has_nanosecond_wait_) {
    const timespec timeout = detail::to_timespec(left);
    const int found = ::epoll_pwait2(epoll_.get(), events_.data(), most, &timeout, nullptr);
    if (found >= 0 || (errno != ENOSYS && errno != EPERM)) return found;
    has_nanosecond_wait_ = false;
  }
  return ::epoll_wait(epoll_.get(), events_.data(), most, whole_milliseconds(left));
}

void epoll_poller::complete(std::size_t& completed) {
  while (!reported_.empty()) {
    const epoll_event event = reported_.front();
    // Before the call: it may end operations, wait again or throw.
    reported_ = reported_.subspan(1);
    // Null: a wake-up, or an operation that ended after it was found ready.
    if (event.data.ptr == nullptr) continue;
    auto& op = *static_cast<readiness_operation*>(event.data.ptr);
    // The interest may have changed after the wait.
    const readiness unasked = readiness::error | readiness::hang_up;
    const readiness ready = readiness_of(event.events) & (op.interest() | unasked);
    if (ready == readiness::none) continue;
    ++completed;
    op.complete(ready);
  }
}

void epoll_poller::wake() noexcept {
  if (parking_.wake()) return;
  // It waits for events, or not yet: the next park() returns at once, and so does the next wait for
  // events, as the descriptor is ready.
  const std::uint64_t one = 1;
  // The counter cannot overflow in practice (2^64 wake-ups); a full one would wake all the same.
  static_cast<void>(::write(wake_.get(), &one, sizeof one));
}

void epoll_poller::watch(readiness_operation& op, readiness interest, trigger how) {
  control(EPOLL_CTL_ADD, op, interest, how);
  op.remember(interest, how);
  watched_.push_back(op);
  ++watched_count_;
}

void epoll_poller::rewatch(readiness_operation& op, readiness interest, trigger how) {
  control(EPOLL_CTL_MOD, op, interest, how);
  op.remember(interest, how);
}

void epoll_poller::unwatch(readiness_operation& op) noexcept {
  if (!op.is_linked()) return;
  // Fails where the descriptor has been closed already; then the kernel has forgotten it too.
  epoll_event ignored{};
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, op.fd(), &ignored));
  op.unlink();
  --watched_count_;
  for (epoll_event& event : reported_) {
    if (event.data.ptr == &op) event.data.ptr = nullptr;
  }
}

void epoll_poller::after_fork() {
  reported_ = {};
  parking_.reset();
  open();
  for (readiness_operation& op : watched_) control(EPOLL_CTL_ADD, op, op.interest(), op.how());
}

void epoll_poller::control(int request, readiness_operation& op, readiness interest, trigger how) {
  epoll_event event{};
  event.events = events_for(interest, how);
  event.data.ptr = &op;
  if (::epoll_ctl(epoll_.get(), request, op.fd(), &event) != 0) detail::throw_errno("epoll_ctl");
}

}  // namespace gyre::io

namespace gyre {

std::unique_ptr<poller> make_poller() { return std::make_unique<io::epoll_poller>(); }

}  // namespace gyre
