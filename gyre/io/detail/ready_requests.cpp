// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/ready_requests.hpp>

#include <gyre/base/error.hpp>

#include <sys/stat.h>

#include <cassert>

namespace gyre::io::detail {
namespace {

request*& slot_of(const request& request) noexcept {
  return request.writes() ? request.target().writer : request.target().reader;
}

bool may_be_ready(const handle& target, direction way) noexcept {
  return target.flags.has(way == direction::write ? handle_flag::may_write : handle_flag::may_read);
}

// A descriptor that is not open for the request's direction is never reported as ready for it.
bool waits_in_vain(const request& request) noexcept {
  const bool only_waits = request.kind() == request_kind::wait_readable ||
                          request.kind() == request_kind::wait_writable;
  return !only_waits && request.target().refuses(request.way());
}

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
  const std::size_t room = handles_.size() + 1 + vacated_;
  if (again_.capacity() < room) again_.reserve(2 * room);
  if (serving_.capacity() < room) serving_.reserve(2 * room);
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
  if (removed.flags.has(handle_flag::queued)) {
    const std::uint32_t position = removed.queue_index;
    if (position < again_.size() && again_[position] == &removed) {
      again_[position] = nullptr;
      ++vacated_;
    } else {
      serving_[position] = nullptr;
    }
  }
  if (current_ == &removed) current_ = nullptr;
  handles_.erase(removed);
  removed.reader = removed.writer = nullptr;
  removed.flags.clear();
  removed.unwatched = false;
  set_attached(removed, false);
}

std::optional<result> ready_requests::start(request& request) noexcept {
  handle& target = request.target();
  if (!target.attached()) return result::failure(EBADF);
  io::request*& slot = slot_of(request);
  if (slot != nullptr) return result::failure(EINPROGRESS);
  slot = &request;
  const bool ready = may_be_ready(target, request.way());
  if (ready && (request.repeats() || at_once_ == 0 || bytes_left_ == 0)) {
    serve_later(target);
    return std::nullopt;
  }
  if (ready) {
    --at_once_;
    const result outcome = perform(request);
    if (!outcome.would_block()) {
      slot = nullptr;
      return outcome;
    }
  }
  if (waits_in_vain(request)) [[unlikely]] {
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
  if (slot_of(request) != nullptr) return result::failure(EINPROGRESS);
  const result outcome =
      may_be_ready(target, request.way()) ? perform(request) : result::failure(EAGAIN);
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
  // A queued handle has its turn as one that is pending.
  if (!ready.flags.has(handle_flag::queued)) serve_requests(ready, completed);
}

void ready_requests::hand_over(request& request, result outcome, std::size_t& completed) {
  begin_share();
  report(request, outcome, completed);
}

void ready_requests::report(request& request, result outcome, std::size_t& completed) {
  if (ends(request, outcome)) slot_of(request) = nullptr;
  ++completed;
  request.complete(outcome);
  memory_.arrived().reset();
}

// A handle that may be ready is not reported: something else keeps its request waiting.
int ready_requests::wait_unless_ready(handle& waiting, direction way) noexcept {
  return may_be_ready(waiting, way) ? 0 : wait_for(waiting, way);
}

void ready_requests::await_readiness(request& waiting, std::size_t& completed) {
  const int error = wait_unless_ready(waiting.target(), waiting.way());
  if (error != 0) [[unlikely]]
    report(waiting, result::failure(error), completed);
}

void ready_requests::begin_pending() noexcept {
  if (served_ < serving_.size()) return;
  serving_.clear();
  served_ = 0;
  std::swap(serving_, again_);
  vacated_ = 0;
}

void ready_requests::serve_one_pending(std::size_t& completed) {
  handle* const next = serving_[served_++];  // before the call: it may throw
  if (next == nullptr) return;
  next->flags.erase(handle_flag::queued);
  serve_requests(*next, completed);
}

// Readiness is not reported twice, so nothing may be left undone when a function throws.
void ready_requests::serve_requests(handle& ready, std::size_t& completed) {
  struct turn {
    ready_requests& self;
    handle& ready;
    bool done = false;
    ~turn() {
      if (!done && self.current_ == &ready) self.serve_later(ready);
      self.current_ = nullptr;
    }
  } present{*this, ready};
  current_ = &ready;
  begin_share();
  serve_writer(ready, completed);
  if (current_ == &ready) serve_reader(ready, completed);
  present.done = true;
}

void ready_requests::serve_writer(handle& ready, std::size_t& completed) {
  io::request* const writer = ready.writer;
  if (writer == nullptr) return;
  if (!ready.flags.has(handle_flag::may_write)) return await_readiness(*writer, completed);
  const result outcome = perform(*writer);
  if (outcome.would_block()) return await_readiness(*writer, completed);
  report(*writer, outcome, completed);
}

void ready_requests::serve_reader(handle& ready, std::size_t& completed) {
  io::request* const reader = ready.reader;
  if (reader == nullptr) return;
  for (int left = reader->receives() ? most_receives : most_accepts; left > 0; --left) {
    if (!ready.flags.has(handle_flag::may_read)) return await_readiness(*reader, completed);
    const result outcome = perform(*reader);
    if (outcome.would_block()) return await_readiness(*reader, completed);
    const bool ended = ends(*reader, outcome);
    report(*reader, outcome, completed);
    if (ended || current_ != &ready || ready.reader != reader) return;
    if (bytes_left_ == 0) break;
  }
  serve_later(ready);
}

void ready_requests::serve_later(handle& ready) noexcept {
  if (ready.flags.has(handle_flag::queued)) return;
  ready.flags.insert(handle_flag::queued);
  ready.queue_index = static_cast<std::uint32_t>(again_.size());
  again_.push_back(&ready);
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
