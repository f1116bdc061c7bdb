// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/readiness_set.hpp>

#include <gyre/base/error.hpp>
#include <gyre/trace/detail/function_sequence.hpp>

#include <cerrno>

namespace gyre::io::detail {
namespace {

std::uint32_t events_for(readiness interest, trigger mode) noexcept {
  std::uint32_t events = mode == trigger::edge ? static_cast<std::uint32_t>(EPOLLET) : 0u;
  if (contains(interest, readiness::readable)) events |= EPOLLIN | EPOLLRDHUP;
  if (contains(interest, readiness::writable)) events |= EPOLLOUT;
  if (contains(interest, readiness::priority)) events |= EPOLLPRI;
  return events;
}

readiness readiness_of(std::uint32_t events) noexcept {
  readiness result = readiness::none;
  if (events & EPOLLIN) result = result | readiness::readable;
  if (events & EPOLLOUT) result = result | readiness::writable;
  if (events & EPOLLPRI) result = result | readiness::priority;
  if (events & EPOLLERR) result = result | readiness::error;
  if (events & (EPOLLHUP | EPOLLRDHUP)) result = result | readiness::hang_up;
  return result;
}

}  // namespace

void unregister(int epoll, int fd, std::uint64_t data, std::span<epoll_event> reports) noexcept {
  epoll_event no_event{};
  static_cast<void>(::epoll_ctl(epoll, EPOLL_CTL_DEL, fd, &no_event));
  for (epoll_event& event : reports) {
    if (event.data.u64 == data) event.data.u64 = 0;
  }
}

int try_set_events(int epoll, int operation, int fd, std::uint32_t events,
                   std::uint64_t data) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = data;
  return ::epoll_ctl(epoll, operation, fd, &event) == 0 ? 0 : errno;
}

void set_events(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t data) {
  const int error = try_set_events(epoll, operation, fd, events, data);
  if (error != 0) gyre::detail::throw_system_error(error, "epoll_ctl");
}

using pause = readiness_operation::pause;

unique_fd readiness_set::make_epoll() {
  unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) gyre::detail::throw_errno("epoll_create1");
  return epoll;
}

void readiness_set::use(int epoll) {
  epoll_ = epoll;
  for (readiness_operation& op : operations_) {
    control(EPOLL_CTL_ADD, op, op.interest(), op.mode());
    if (op.pause_state() == pause::withheld) op.set_pause(pause::paused);
  }
}

void readiness_set::watch(readiness_operation& op, readiness interest, trigger mode) {
  control(EPOLL_CTL_ADD, op, interest, mode);
  op.set_interest(interest, mode);
  operations_.push_back(op);
  ++count_;
}

void readiness_set::rewatch(readiness_operation& op, readiness interest, trigger mode) {
  control(EPOLL_CTL_MOD, op, interest, mode);
  op.set_interest(interest, mode);
}

void readiness_set::unwatch(readiness_operation& op) noexcept {
  if (!op.is_linked()) return;
  unregister(epoll_, op.fd(), reinterpret_cast<std::uintptr_t>(&op), reports_);
  op.unlink();
  --count_;
}

void readiness_set::report(const epoll_event& event, std::size_t& completions) const {
  auto& op = *static_cast<readiness_operation*>(event.data.ptr);
  if (op.pause_state() != pause::none) [[unlikely]]
    return withhold(op);
  // The interest may have changed after the wait, so the events are filtered by the present one.
  const readiness always_reported = readiness::error | readiness::hang_up;
  const readiness events_of_op = readiness_of(event.events) & (op.interest() | always_reported);
  if (events_of_op == readiness::none) return;
  ++completions;
  const trace::detail::recorded_call call(op.code());
  op.complete(events_of_op);
}

// Suppresses the events of a paused operation. A level-triggered event would end every wait while
// the pause lasts. Edge-triggered events are rare, and resume() queries the state; errors and
// hang-ups, which epoll always reports, are then reported once.
void readiness_set::withhold(readiness_operation& op) const noexcept {
  if (op.pause_state() == pause::paused) {
    static_cast<void>(try_set_events(epoll_, EPOLL_CTL_MOD, op.fd(),
                                     events_for(readiness::none, trigger::edge),
                                     reinterpret_cast<std::uintptr_t>(&op)));
  }
  op.set_pause(pause::withheld);
}

void readiness_set::control(int operation, readiness_operation& op, readiness interest,
                            trigger mode) const {
  set_events(epoll_, operation, op.fd(), events_for(interest, mode),
             reinterpret_cast<std::uintptr_t>(&op));
}

}  // namespace gyre::io::detail
