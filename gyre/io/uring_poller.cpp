// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/uring_poller.hpp>

#include <gyre/base/error.hpp>

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace gyre::io {
namespace {

// The tags in the `user_data` of completions; completions of subscriptions have
// detail::subscription_id::tag.
constexpr std::uint8_t wake_tag = 2;
constexpr std::uint8_t watches_tag = 3;
constexpr std::uint8_t message_tag = 4;
constexpr std::uint8_t files_tag = 5;

}  // namespace

uring_poller::uring_poller(const uring_features& features)
    : features_(features), ring_(features), requests_(*this, ring_, features) {
  requests_.provide_buffers();
  open_epoll();
}

// ---- waiting

std::size_t uring_poller::wait(steady_time deadline) {
  if (ring_.ready() + reports_.size() > 0) {
    // The deadline in the past makes the wait only submit, so that requests that began meanwhile
    // are submitted at once.
    deadline = steady_time::min();
  } else if (watched() == 0) {
    if (deadline != steady_time::min()) parker_.park(deadline);
    return 0;
  }
  if (!ring_.usable_here()) {
    abandon_ring();
    open_ring();
  }
  if (std::exchange(must_not_wait_, false) || pending() > 0) deadline = steady_time::min();
  deadline = bound_by_retry(deadline);
  switch (const int error = submit_and_wait(deadline)) {
    case 0:
    case EAGAIN:
    case EBUSY: break;  // no room: the completions must be served first
    case EINTR: requests_.note_interruption(); break;
    case EEXIST:  // another thread owns the ring
    case EBADR:   // completions were lost
      abandon_ring();
      return 1;
    default: gyre::detail::throw_system_error(error, "io_uring_enter");
  }
  const std::size_t work = ring_.ready() + reports_.size() + pending();
  if (work > 0 || deadline == steady_time::min() || requests_.all_reads_confirmed()) {
    return work;
  }
  retry_short_reads();
  return pending();
}

std::size_t uring_poller::watched() const noexcept {
  return watches_.size() + requests_.attached() + (files_ ? files_->under_way() : 0);
}

// Returns the deadline, or the time at which short reads are tried again, if that is sooner. Trying
// them again before each sleep would cost most messages a second call.
steady_time uring_poller::bound_by_retry(steady_time deadline) noexcept {
  constexpr auto until_retry = std::chrono::milliseconds{10};
  constexpr unsigned max_waits = 1024;  // limits the delay while other handles keep the loop busy
  if (requests_.all_reads_confirmed()) return deadline;
  if (++unconfirmed_waits_ == max_waits) {
    retry_short_reads();
    return steady_time::min();
  }
  return deadline == steady_time::min() ? deadline : std::min(deadline, now() + until_retry);
}

void uring_poller::retry_short_reads() noexcept {
  unconfirmed_waits_ = 0;
  requests_.retry_short_reads();
}

// Returns the number of items that can be served without a further completion.
std::size_t uring_poller::pending() const noexcept {
  return requests_.pending() + (has_ready_files_ || (files_ && files_->pending()) ? 1 : 0);
}

int uring_poller::submit_and_wait(steady_time deadline) noexcept {
  const bool all_submitted = watch_descriptors() && requests_.submit_changes();
  if (deadline == steady_time::min() || !all_submitted) return ring_.has_work() ? ring_.enter() : 0;
  return ring_.enter_and_wait(now(), deadline);
}

void uring_poller::open_ring() {
  ring_.open();
  requests_.provide_buffers();
}

void uring_poller::abandon_ring() noexcept {
  must_not_wait_ = must_not_wait_ || ring_.is_open();  // the ring may have lost the message
  ring_.end_all();
  save_completions();
  close_ring();
}

void uring_poller::close_ring() noexcept {
  ring_.close(wake_.fd());
  message_.taken();
  is_wake_watched_ = is_epoll_watched_ = are_files_watched_ = false;
  requests_.restart();
}

// Handles a completion that does not belong to a subscription.
void uring_poller::note_completion(std::uint8_t tag) noexcept {
  switch (tag) {
    case wake_tag: is_wake_watched_ = false; break;
    case watches_tag: is_epoll_watched_ = false; break;
    case files_tag:
      are_files_watched_ = false;
      has_ready_files_ = true;
      break;
    case message_tag: message_.taken(); break;
    default: break;
  }
}

// Takes the ready completions without completing a request.
void uring_poller::save_completions() noexcept {
  while (ring_.ready() > 0) {
    const io_uring_cqe completion = ring_.take();
    const std::uint8_t tag = detail::tag_of(completion);
    if (tag == detail::subscription_id::tag) {
      requests_.record(completion);
    } else {
      note_completion(tag);
    }
    if (tag == message_tag) must_not_wait_ = true;
  }
}

void uring_poller::leave() noexcept {
  constexpr int max_attempts = 100'000;
  if (!ring_.usable_here()) return abandon_ring();  // another thread owns the ring
  for (int attempt = 0; requests_.cancel_all(); ++attempt) {
    if (attempt == max_attempts) return abandon_ring();
    ring_.enter();
    save_completions();
  }
  requests_.restart();
}

// Watches the poller's descriptors. Each watch ends with one report; the next watch reports again
// what is still there.
bool uring_poller::watch_descriptors() noexcept {
  const auto watches = [this](bool& is_watched, int fd, std::uint8_t tag) noexcept {
    return is_watched = is_watched || watch_descriptor(fd, tag);
  };
  const bool has_files = files_ && files_->under_way() > 0;
  return watches(is_wake_watched_, wake_.fd(), wake_tag) &&
         (watches_.size() == 0 || watches(is_epoll_watched_, epoll_.get(), watches_tag)) &&
         (!has_files || watches(are_files_watched_, files_->fd(), files_tag));
}

bool uring_poller::watch_descriptor(int fd, std::uint8_t tag) noexcept {
  io_uring_sqe* const submission = ring_.next_submission();
  if (submission == nullptr) return false;
  io_uring_prep_poll_add(submission, fd, POLLIN);
  submission->user_data = tag;
  return true;
}

void uring_poller::wake() noexcept {
  if (parker_.unpark()) return;
  if (features_.message_from_anywhere && ring_.takes_messages()) {
    if (!message_.begin() || detail::uring::send_message(ring_.fd(), 0, message_tag)) return;
    message_.failed();
  }
  wake_.raise();
}

// ---- completing

void uring_poller::complete(std::size_t& completions) {
  const auto is_over = [this]() noexcept { return is_time_over(); };
  const auto serve_reported = [&] {
    if (!report_watches(completions) || !serve_ring(completions)) return false;
    reap_files(completions);
    return true;
  };
  requests_.serve_all(ring_.ready() + reports_.size(), completions, is_over, serve_reported);
}

void uring_poller::reap_files(std::size_t& completions) {
  if (files_ && (std::exchange(has_ready_files_, false) || files_->pending()))
    files_->reap(completions);
}

// Returns whether all completions and all events of watches were served.
bool uring_poller::serve_ring(std::size_t& completions) {
  if (unserved_completions_ == 0) unserved_completions_ = ring_.ready();
  while (unserved_completions_ > 0 && ring_.ready() > 0) {
    --unserved_completions_;
    const std::size_t old_completions = completions;
    serve(ring_.take(), completions);
    // The clock is read only after a completion that has completed a request: others take little
    // time.
    if (completions != old_completions && unserved_completions_ > 0 && is_time_over()) return false;
  }
  unserved_completions_ = 0;
  return reports_.empty();
}

void uring_poller::serve(const io_uring_cqe& completion, std::size_t& completions) {
  const std::uint8_t tag = detail::tag_of(completion);
  if (tag == detail::subscription_id::tag) {
    return requests_.serve_completion(completion, completions);
  }
  note_completion(tag);
  if (tag == wake_tag) wake_.lower();
  if (tag == watches_tag) {
    const int count = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(max_events), 0);
    if (count > 0) reports_ = std::span(events_).first(static_cast<std::size_t>(count));
    report_watches(completions);
  }
}

// Returns whether all events were reported.
bool uring_poller::report_watches(std::size_t& completions) {
  while (!reports_.empty()) {
    const epoll_event event = reports_.front();
    // The event is taken before the call, which may end operations, wait again or throw.
    reports_ = reports_.subspan(1);
    if (event.data.ptr != nullptr) watches_.report(event, completions);
    if (!reports_.empty() && is_time_over()) return false;
  }
  return true;
}

void uring_poller::open_epoll() {
  epoll_ = detail::readiness_set::make_epoll();
  watches_.use(epoll_.get());
}

// Returns the ring for files, made by the first call; null if there can be none: threads of a pool
// then carry out calls on files.
file_service* uring_poller::file_calls() noexcept {
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
  // The completions of the old ring belong to the parent.
  reports_ = {};
  parker_.reset();
  requests_.discard_early_data();
  close_ring();
  wake_ = gyre::detail::wake_event();
  open_epoll();
  if (files_) files_->recreate_ring_in_child();
  // The next thread that waits makes a ring.
}

}  // namespace gyre::io
