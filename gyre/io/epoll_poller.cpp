// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/epoll_poller.hpp>

#include <gyre/base/error.hpp>

#include <chrono>
#include <climits>
#include <ctime>

namespace gyre::io {
namespace {

// The data in events of the poller's own descriptors. Other events carry the address of an
// operation, or a handle's address with its tag.
constexpr std::uint64_t wake_data = 0;
constexpr std::uint64_t deadline_data = 2;

static_assert(EPOLLIN == POLLIN && EPOLLPRI == POLLPRI && EPOLLOUT == POLLOUT &&
              EPOLLERR == POLLERR && EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP);

int whole_milliseconds(std::chrono::nanoseconds duration) noexcept {
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::min<std::int64_t>(milliseconds, INT_MAX));
}

}  // namespace

void detail::epoll_requests::add(handle& target) {
  if (target.kind() == handle_kind::stream_socket) {
    target.unwatched = true;
    return;
  }
  if (watches_writes_on_demand(target)) {
    writes_watched_.grow_to(std::size_t{target.index} + 1);
    writes_watched_[target.index] = false;
  }
  register_now(target);
}

std::uint32_t detail::epoll_requests::events_of(const handle& target) const noexcept {
  const std::uint32_t read_events =
      EPOLLIN | EPOLLPRI | EPOLLRDHUP | static_cast<std::uint32_t>(EPOLLET);
  return watches_writes(target) ? read_events | EPOLLOUT : read_events;
}

// Registers a descriptor, or changes the events of its registration. `operation`: EPOLL_CTL_ADD or
// EPOLL_CTL_MOD. Epoll then immediately reports what is ready already.
int detail::epoll_requests::try_register(handle& target, int operation) noexcept {
  return try_set_events(epoll_, operation, target.fd(), events_of(target), tagged(target));
}

void detail::epoll_requests::register_now(handle& target) {
  const int error = try_register(target, EPOLL_CTL_ADD);
  if (error == 0) return;
  if (error != EPERM) gyre::detail::throw_system_error(error, "epoll_ctl");
  require_pollable(target.fd());
  target.flags.insert(handle_flag::always_ready);
  note_events(target, POLLIN | POLLOUT);
}

int detail::epoll_requests::set_writes_watched(handle& target, bool is_watched) noexcept {
  writes_watched_[target.index] = is_watched;
  const int error = try_register(target, EPOLL_CTL_MOD);
  if (error != 0) writes_watched_[target.index] = !is_watched;
  return error;
}

int detail::epoll_requests::watch(handle& target, direction side) noexcept {
  if (target.unwatched) {
    const int error = try_register(target, EPOLL_CTL_ADD);
    target.unwatched = error != 0;
    return error;
  }
  return side == direction::write && !watches_writes(target) ? set_writes_watched(target, true) : 0;
}

int detail::epoll_requests::wait_for(handle& target, direction side) noexcept {
  if (!target.flags.has(handle_flag::always_ready)) return watch(target, side);
  note_events(target, POLLIN | POLLOUT);
  serve_later(target);
  return 0;
}

void detail::epoll_requests::remove(handle& target) noexcept {
  if (target.unwatched) return;
  unregister(epoll_, target.fd(), tagged(target), reported_events_);
}

void detail::epoll_requests::use(int epoll) {
  epoll_ = epoll;
  handles().for_each([this](handle& target) {
    if (!target.unwatched) register_now(target);
  });
}

void epoll_poller::open() {
  unique_fd epoll = detail::readiness_set::make_epoll();
  gyre::detail::wake_event wake;
  detail::set_events(epoll.get(), EPOLL_CTL_ADD, wake.fd(), EPOLLIN | EPOLLET, wake_data);
  epoll_ = std::move(epoll);
  wake_.emplace(std::move(wake));
  watches_.use(epoll_.get());
  requests_.use(epoll_.get());
}

std::size_t epoll_poller::wait(steady_time deadline) {
  if (!reported_events_.empty()) return reported_events_.size();
  if (requests_.pending() > 0) deadline = steady_time::min();
  if (watched() == 0) {
    if (deadline != steady_time::min()) parker_.park(deadline);
    return 0;
  }
  const int count = wait_for_events(deadline);
  if (count < 0) {
    if (errno == EINTR) return 0;
    gyre::detail::throw_errno("epoll_wait");
  }
  reported_events_ = std::span(events_).first(static_cast<std::size_t>(count));
  return reported_events_.size() + requests_.pending();
}

int epoll_poller::wait_for_events(steady_time deadline) {
  constexpr int capacity = static_cast<int>(max_events);
  if (deadline == steady_time::min())
    return ::epoll_wait(epoll_.get(), events_.data(), capacity, 0);
  if (deadline >= standing_deadline_.deadline() || use_standing_deadline(deadline)) {
    return ::epoll_wait(epoll_.get(), events_.data(), capacity, -1);
  }
  return wait_with_timeout(deadline);
}

// Sets the timerfd to a deadline that several waits in a row have had. Returns false if the wait
// needs a timeout.
bool epoll_poller::use_standing_deadline(steady_time deadline) noexcept {
  if (!standing_deadline_.count_wait(deadline) || deadline <= now()) return false;
  if (standing_deadline_.fd() < 0) {
    if (!standing_deadline_.make()) return false;
    if (detail::try_set_events(epoll_.get(), EPOLL_CTL_ADD, standing_deadline_.fd(),
                               EPOLLIN | EPOLLET, deadline_data) != 0) {
      standing_deadline_.reset();
      return false;
    }
  }
  return standing_deadline_.set(deadline);
}

int epoll_poller::wait_with_timeout(steady_time deadline) {
  constexpr int capacity = static_cast<int>(max_events);
  const steady_time time = now();
  const auto timeout = deadline > time ? deadline - time : std::chrono::nanoseconds{0};
  if (has_nanosecond_wait_) {
    const timespec timeout_spec = gyre::detail::to_timespec(timeout);
    const int count =
        ::epoll_pwait2(epoll_.get(), events_.data(), capacity, &timeout_spec, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    has_nanosecond_wait_ = false;
  }
  return ::epoll_wait(epoll_.get(), events_.data(), capacity, whole_milliseconds(timeout));
}

void epoll_poller::complete(std::size_t& completions) {
  const auto is_over = [this]() noexcept { return is_time_over(); };
  requests_.serve_all(reported_events_.size(), completions, is_over,
                      [&] { return serve_reported(completions); });
}

// Returns whether all events were served.
bool epoll_poller::serve_reported(std::size_t& completions) {
  while (!reported_events_.empty()) {
    const epoll_event event = reported_events_.front();
    // The event is taken before the call, which may end operations, wait again or throw.
    reported_events_ = reported_events_.subspan(1);
    const std::size_t old_completions = completions;
    if (handle* const target = detail::epoll_requests::target_of(event)) {
      requests_.serve_event(*target, event.events, completions);
    } else if (event.data.u64 == deadline_data) {
      standing_deadline_.note_passed();
    } else if (event.data.u64 != wake_data) {  // zero is also the data of an ended watch
      watches_.report(event, completions);
    }
    // The clock is read only after an event that has completed something: other events take little
    // time.
    if (completions != old_completions && !reported_events_.empty() && is_time_over()) return false;
  }
  return true;
}

void epoll_poller::wake() noexcept {
  if (parker_.unpark()) return;
  // The poller waits for events, or does not wait yet. The eventfd ends a wait for events, and
  // unpark() ends the next park().
  wake_->raise();
}

void epoll_poller::after_fork() {
  reported_events_ = {};
  parker_.reset();
  standing_deadline_.reset();
  open();
}

}  // namespace gyre::io
