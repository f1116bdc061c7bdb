// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/ready_requests.hpp>

#include <gyre/base/error.hpp>

#include <sys/stat.h>

#include <cassert>
#include <limits>

namespace gyre::io::detail {
namespace {

request*& slot_of(handle& target, const request& request) noexcept {
  return request.writes() ? target.writer : target.reader;
}

bool may_be_ready(const handle& target, direction way) noexcept {
  return target.flags.has(way == direction::write ? handle_flag::may_write : handle_flag::may_read);
}

// A descriptor that is not open for the request's direction is never reported as ready for it.
bool waits_in_vain(const handle& target, const request& request) noexcept {
  const bool only_waits = request.kind() == request_kind::wait_readable ||
                          request.kind() == request_kind::wait_writable;
  return !only_waits && target.refuses(request.way());
}

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

std::size_t bytes_of(result outcome) noexcept { return outcome ? outcome.count() : 0; }

bool ends(const request& request, result outcome) noexcept {
  return !request.repeats() || !outcome || (request.receives() && outcome.count() == 0);
}

}  // namespace

ready_requests::ready_requests() noexcept {
  memory_.on_return(
      [](void* self) noexcept { static_cast<ready_requests*>(self)->retry_starved(); }, this);
}

void ready_requests::refuse_file(int fd) {
  struct ::stat status{};
  if (::fstat(fd, &status) != 0) gyre::detail::throw_errno("fstat");
  if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode)) {
    gyre::detail::throw_system_error(EPERM, "a file is no stream: use gyre::io::file");
  }
}

void ready_requests::attach(handle& added) {
  assert(!added.attached() && "attached twice");
  queue_.reserve(handles_.size() + 1);
  added.index = handles_.next_index();
  added.flags = handle_flag::may_write;
  // A peer may have sent before it was accepted. A connection that is closed after the answer then
  // need not be watched, which costs more than a call in vain.
  if (added.kind() == handle_kind::stream_socket) added.flags.insert(handle_flag::may_read);
  add(added);
  handles_.insert(added);
  set_attached(added, true);
}

void ready_requests::detach(handle& removed) noexcept {
  if (!removed.attached()) return;
  remove(removed);
  if (removed.flags.has(handle_flag::queued)) queue_.remove(removed);
  if (current_ == &removed) current_ = nullptr;
  handles_.erase(removed);
  removed.reader = removed.writer = nullptr;
  removed.flags.clear();
  removed.queue_index = 0;
  removed.unwatched = false;
  set_attached(removed, false);
}

std::optional<result> ready_requests::start_on(handle& target, request& request) noexcept {
  if (!target.attached()) return result::failure(EBADF);
  io::request*& slot = slot_of(target, request);
  if (slot != nullptr) return result::failure(EINPROGRESS);
  slot = &request;
  const bool ready = may_be_ready(target, request.way());
  if (ready && (request.repeats() || at_once_ == 0 || bytes_left(request.way()) == 0)) {
    serve_later(target);
    return std::nullopt;
  }
  if (ready) {
    --at_once_;
    const result outcome = perform(target, request);
    if (!outcome.would_block()) {
      slot = nullptr;
      return outcome;
    }
  }
  if (waits_in_vain(target, request)) [[unlikely]] {
    slot = nullptr;
    return result::failure(EBADF);
  }
  if (const int error = wait_unless_ready(target, request.way()); error != 0) [[unlikely]] {
    if (request.repeats()) {  // which is told later, as ever
      target.flags.insert(handle_flag::may_read);
      serve_later(target);
      return std::nullopt;
    }
    slot = nullptr;
    return result::failure(error);
  }
  return std::nullopt;
}

result ready_requests::attempt(request& request) noexcept {
  handle& target = request.target();
  if (!target.attached()) return result::failure(EBADF);
  if (slot_of(target, request) != nullptr) return result::failure(EINPROGRESS);
  result outcome = result::failure(EAGAIN);
  if (may_be_ready(target, request.way())) {
    // The request may move more than the share that is left, but its bytes are counted.
    std::size_t& left_to_move = bytes_left(request.way());
    const std::size_t before = std::exchange(left_to_move, unlimited);
    outcome = perform(target, request);
    left_to_move = before - std::min(before, unlimited - left_to_move);
  }
  if (outcome.would_block() && target.unwatched) {  // nothing would tell when it is ready
    if (const int error = wait_for(target, request.way()); error != 0)
      return result::failure(error);
  }
  return outcome;
}

std::optional<result> ready_requests::cancel(request& request) noexcept {
  handle& target = request.target();
  if (target.reader == &request) target.reader = nullptr;
  if (target.writer == &request) target.writer = nullptr;
  return std::nullopt;
}

// The kernel first: what moves from there into reports meanwhile is then seen there.
bool ready_requests::has_arrivals(const handle& target) noexcept {
  pollfd arrival{.fd = target.fd(), .events = POLLIN | POLLRDHUP, .revents = 0};
  return ::poll(&arrival, 1, 0) != 0 || may_have_early(target);
}

void ready_requests::serve(handle& ready, std::uint32_t events, std::size_t& completed) {
  note_events(ready, events);
  if (ready.flags.has(handle_flag::queued)) return;  // it has its turn
  if (!queue_.is_new(ready)) return serve_later(ready);
  serve_requests(ready, queue_.share_of_new(), completed);
}

void ready_requests::hand_over(handle& target, request& request, result outcome,
                               std::size_t& completed) {
  begin_share(queue_.share_of_new());
  const std::size_t cost =
      fair_queue::cost_of_request + (request.receives() ? bytes_of(outcome) : 0);
  queue_.note_moved(cost);
  if (!target.flags.has(handle_flag::queued)) queue_.note_used(target, cost);
  report(target, request, outcome, completed);
}

void ready_requests::report(handle& target, request& request, result outcome,
                            std::size_t& completed) {
  if (ends(request, outcome)) slot_of(target, request) = nullptr;
  ++completed;
  complete_for(target, request, outcome);
  memory_.arrived().reset();
}

// A handle that may be ready is not reported: something else keeps its request waiting.
int ready_requests::wait_unless_ready(handle& waiting, direction way) noexcept {
  return may_be_ready(waiting, way) ? 0 : wait_for(waiting, way);
}

void ready_requests::await_readiness(handle& target, request& waiting, std::size_t& completed) {
  const int error = wait_unless_ready(target, waiting.way());
  if (error != 0) [[unlikely]]
    report(target, waiting, result::failure(error), completed);
}

bool ready_requests::serve_waiting(handle* waiting, std::size_t share, std::size_t& completed) {
  if (waiting == nullptr) return false;
  waiting->flags.erase(handle_flag::queued);
  serve_requests(*waiting, share, completed);
  return true;
}

// Readiness is not reported twice, so nothing may be left undone when a function throws.
void ready_requests::serve_requests(handle& ready, std::size_t share, std::size_t& completed) {
  struct visit {
    ready_requests& self;
    handle& ready;
    bool done = false;
    ~visit() { self.end_visit(ready, !done); }
  } present{*this, ready};
  current_ = &ready;
  wants_more_ = false;
  begin_share(share);
  serve_writer(ready, completed);
  if (current_ == &ready) serve_reader(ready, completed);
  present.done = true;
}

void ready_requests::end_visit(handle& visited, bool is_interrupted) noexcept {
  const std::size_t cost = cost_of_visit();
  queue_.note_moved(cost);
  if (std::exchange(current_, nullptr) != &visited) return;
  if (wants_more_ || is_interrupted) {
    visited.flags.insert(handle_flag::queued);
    queue_.push_old(visited);
  } else {
    queue_.note_used(visited, cost);
  }
}

void ready_requests::serve_writer(handle& ready, std::size_t& completed) {
  io::request* const writer = ready.writer;
  if (writer == nullptr) return;
  if (!ready.flags.has(handle_flag::may_write)) return await_readiness(ready, *writer, completed);
  const result outcome = perform(ready, *writer);
  if (outcome.would_block()) return await_readiness(ready, *writer, completed);
  report(ready, *writer, outcome, completed);
}

void ready_requests::serve_reader(handle& ready, std::size_t& completed) {
  io::request* const reader = ready.reader;
  if (reader == nullptr) return;
  for (int left = reader->receives() ? most_receives : most_accepts; left > 0; --left) {
    if (!ready.flags.has(handle_flag::may_read)) return await_readiness(ready, *reader, completed);
    const result outcome = perform(ready, *reader);
    if (outcome.would_block()) return await_readiness(ready, *reader, completed);
    const bool ended = ends(*reader, outcome);
    report(ready, *reader, outcome, completed);
    if (ended || current_ != &ready || ready.reader != reader) return;
    if (bytes_left(direction::read) == 0) break;
  }
  serve_later(ready);
}

// The handle that is being visited has had its turn.
void ready_requests::serve_later(handle& ready) noexcept {
  if (ready.flags.has(handle_flag::queued)) return;
  if (current_ == &ready) {
    wants_more_ = true;
    return;
  }
  ready.flags.insert(handle_flag::queued);
  queue_.push(ready);
}

void ready_requests::retry_starved() noexcept {
  for (std::size_t index = 0; index < handles_.size(); ++index) {
    handle* const each = handles_[index];
    if (each == nullptr || !each->flags.has(handle_flag::awaits_memory)) continue;
    each->flags.erase(handle_flag::awaits_memory);
    serve_later(*each);
  }
}

}  // namespace gyre::io::detail
