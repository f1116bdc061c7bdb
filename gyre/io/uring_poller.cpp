// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/uring_poller.hpp>

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <gyre/base/error.hpp>

namespace gyre::io {
namespace {

// In `user_data`; what is for requests has detail::uring_requests::completion_tag.
constexpr std::uint64_t of_wake = 2;
constexpr std::uint64_t of_watches = 3;
constexpr std::uint64_t of_message = 4;
constexpr std::uint64_t of_files = 5;

}  // namespace

uring_poller::uring_poller(const uring_features& features)
    : features_(features), ring_(features), requests_(*this, ring_, features) {
  requests_.begin_with_ring();
}

steady_time uring_poller::now() const noexcept { return gyre::detail::monotonic_now(); }

// ---- waiting

std::size_t uring_poller::wait(steady_time deadline) {
  if (ring_.ready() + reported_.size() > 0) {
    // Those who wait for what they have asked for since do not wait until nothing is left.
    deadline = steady_time::min();
  } else if (watched() == 0) {
    if (deadline != steady_time::min()) parker_.park(deadline);
    return 0;
  }
  if (!ring_.usable_here()) {
    abandon_ring();
    open_ring();
    deadline = steady_time::min();  // a message to the old ring may have been lost
  }
  if (std::exchange(woken_, false) || pending() > 0) deadline = steady_time::min();
  deadline = patience(deadline);
  switch (const int failed = ask(deadline)) {
    case 0:
    case EINTR:
    case EAGAIN:
    case EBUSY: break;  // for want of room: what there is has to be served first
    case EEXIST:        // of another thread after all
    case EBADR:         // it has lost something
      abandon_ring();
      return 1;
    default: gyre::detail::throw_system_error(failed, "io_uring_enter");
  }
  const std::size_t come = ring_.ready() + reported_.size() + pending();
  if (come > 0 || deadline == steady_time::min() || requests_.sure()) return come;
  doubt();
  return pending();
}

std::size_t uring_poller::watched() const noexcept {
  return watches_.size() + requests_.handles() + (files_ ? files_->under_way() : 0);
}

// How long it waits before it doubts what short reads have told, when nothing comes. To do so before each
// sleep would cost most messages a second call.
steady_time uring_poller::patience(steady_time deadline) noexcept {
  constexpr auto until_doubt = std::chrono::milliseconds{10};
  constexpr unsigned most_waits = 1024;  // of a loop that others keep busy
  if (requests_.sure()) return deadline;
  if (++waits_in_doubt_ == most_waits) {
    doubt();
    return steady_time::min();
  }
  return deadline == steady_time::min() ? deadline : std::min(deadline, now() + until_doubt);
}

void uring_poller::doubt() noexcept {
  waits_in_doubt_ = 0;
  requests_.doubt_short_reads();
}

// What needs no completion to go on.
std::size_t uring_poller::pending() const noexcept {
  return requests_.pending() + (files_told_ || (files_ && files_->pending()) ? 1 : 0);
}

int uring_poller::ask(steady_time deadline) noexcept {
  const bool all_asked = watch_descriptors() && requests_.flush();
  if (deadline == steady_time::min() || !all_asked) return ring_.has_business() ? ring_.enter() : 0;
  return ring_.enter_and_wait(now(), deadline);
}

void uring_poller::open_ring() {
  ring_.open();
  requests_.begin_with_ring();
}

void uring_poller::abandon_ring() noexcept {
  ring_.end_all();
  save_completions();
  close_ring();
}

void uring_poller::close_ring() noexcept {
  ring_.close(wake_.fd());
  message_.taken();
  wake_watched_ = epoll_watched_ = files_watched_ = false;
  requests_.begin_anew();
}

// Of those that are not for requests.
void uring_poller::note(std::uint64_t tag) noexcept {
  switch (tag) {
    case of_wake: wake_watched_ = false; break;
    case of_watches: epoll_watched_ = false; break;
    case of_files:
      files_watched_ = false;
      files_told_ = true;
      break;
    case of_message: message_.taken(); break;
    default: break;
  }
}

// Takes what has come, calling nobody.
void uring_poller::save_completions() noexcept {
  while (ring_.ready() > 0) {
    const io_uring_cqe left = ring_.take();
    const std::uint64_t tag = requests_.tag_of(left);
    if (tag == requests_.completion_tag) {
      requests_.save(left);
    } else {
      note(tag);
    }
    if (tag == of_message) woken_ = true;
  }
}

void uring_poller::leave() noexcept {
  constexpr int most_attempts = 100'000;
  if (!ring_.usable_here()) return abandon_ring();  // it serves another thread
  for (int attempt = 0; requests_.take_back_all(); ++attempt) {
    if (attempt == most_attempts) return abandon_ring();
    ring_.enter();
    save_completions();
  }
  requests_.begin_anew();
}

// Each order is for one report: the next asks again, and so is told what there is still.
bool uring_poller::watch_descriptors() noexcept {
  const auto watches = [this](bool& already, int fd, std::uint64_t name) noexcept {
    return already = already || watch_descriptor(fd, name);
  };
  const bool has_files = files_ && files_->under_way() > 0;
  return watches(wake_watched_, wake_.fd(), of_wake) &&
         (watches_.size() == 0 || watches(epoll_watched_, epoll_.get(), of_watches)) &&
         (!has_files || watches(files_watched_, files_->fd(), of_files));
}

bool uring_poller::watch_descriptor(int fd, std::uint64_t name) noexcept {
  io_uring_sqe* const next = ring_.next_submission();
  if (next == nullptr) return false;
  io_uring_prep_poll_add(next, fd, POLLIN);
  next->user_data = name;
  return true;
}

void uring_poller::wake() noexcept {
  if (parker_.unpark()) return;
  if (features_.message_from_anywhere) {
    if (!message_.begin() || detail::uring::send_message(ring_.fd(), 0, of_message)) return;
    message_.failed();
  }
  wake_.raise();
}

// ---- completing

// What the ring brought and what is pending take turns, also when both are more than fits into one.
void uring_poller::complete(std::size_t& completed) {
  const auto over = [this]() noexcept { return is_time_over(); };
  if (!pending_first_) requests_.begin_pending();
  if (pending_first_ && !requests_.serve_pending(completed, over)) return;
  pending_first_ = false;
  if (!report_watches(completed) || !serve_ring(completed)) return;
  pending_first_ = true;
  if (!requests_.serve_pending(completed, over)) return;
  pending_first_ = false;
  if (files_ && (std::exchange(files_told_, false) || files_->pending())) files_->reap(completed);
}

// Whether that was all, as the next.
bool uring_poller::serve_ring(std::size_t& completed) {
  if (to_serve_ == 0) to_serve_ = ring_.ready();
  while (to_serve_ > 0 && ring_.ready() > 0) {
    --to_serve_;
    const std::size_t before = completed;
    serve(ring_.take(), completed);
    // What calls nobody takes no time worth a look at the clock.
    if (completed != before && to_serve_ > 0 && is_time_over()) return false;
  }
  to_serve_ = 0;
  return reported_.empty();
}

void uring_poller::serve(const io_uring_cqe& completion, std::size_t& completed) {
  const std::uint64_t tag = requests_.tag_of(completion);
  if (tag == requests_.completion_tag) return requests_.serve_completion(completion, completed);
  note(tag);
  if (tag == of_wake) wake_.lower();
  if (tag == of_watches) {
    look_at_watches();
    report_watches(completed);
  }
}

void uring_poller::look_at_watches() noexcept {
  const int found = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(most_events), 0);
  if (found > 0) reported_ = std::span(events_).first(static_cast<std::size_t>(found));
}

bool uring_poller::report_watches(std::size_t& completed) {
  while (!reported_.empty()) {
    const epoll_event event = reported_.front();
    // Before the call: it may end operations, wait again or throw.
    reported_ = reported_.subspan(1);
    if (event.data.ptr != nullptr) detail::readiness_set::report(event, completed);
    if (!reported_.empty() && is_time_over()) return false;
  }
  return true;
}

void uring_poller::watch(readiness_operation& op, readiness interest, trigger how) {
  if (!epoll_) open_epoll();
  watches_.watch(op, interest, how);
}

void uring_poller::open_epoll() {
  epoll_ = detail::readiness_set::make_epoll();
  watches_.use(epoll_.get());
}

// Without one, threads of a pool carry out what is asked of files.
file_service* uring_poller::files() noexcept {
  if (!files_ && features_.files) {
    try {
      files_.emplace();
    } catch (...) {
      return nullptr;
    }
  }
  return files_ ? &*files_ : nullptr;
}

void uring_poller::after_fork() {
  // What is in the old ring is the parent's.
  reported_ = {};
  parker_.reset();
  requests_.forget_what_came();
  close_ring();
  wake_ = detail::wake_event();
  if (epoll_) open_epoll();
  if (files_) files_->after_fork();
  open_ring();
}

}  // namespace gyre::io
