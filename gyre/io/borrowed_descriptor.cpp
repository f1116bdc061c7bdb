// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/borrowed_descriptor.hpp>

#include <gyre/io/detail/open_descriptor.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/schedule.hpp>

#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::io {
namespace {

constexpr const char* operation = "gyre::io::borrowed_descriptor: wait";

}  // namespace

borrowed_descriptor::borrowed_descriptor(event_loop& target, int fd) noexcept : loop_(target) {
  watch_.emplace(target, fd, [this](readiness events) { report(events); });
}

task<readiness> borrowed_descriptor::wait(readiness interest) {
  constexpr readiness all_events = readiness::readable | readiness::writable | readiness::priority;
  if (!contains(interest, all_events)) {
    throw std::invalid_argument("borrowed_descriptor: a wait needs at least one event");
  }
  event_loop& loop = loop_;
  executor& own_executor = co_await current_executor();
  if (&own_executor != &loop && !detail::may_use(loop, own_executor)) {
    throw std::system_error(make_error_code(errc::wrong_thread), operation);
  }
  if (!watch_) throw std::system_error(make_error_code(errc::not_open), operation);
  waiter own_waiter(*this, interest);
  auto waits = from_callback<readiness>([&](completion<readiness> report_of_events) {
    own_waiter.owner.add(own_waiter, std::move(report_of_events));
  });
  std::exception_ptr error;
  try {
    co_return co_await std::move(waits);
  } catch (...) {
    error = gyre::detail::caught_error();
  }
  // A coroutine that was stopped may be on another thread than the loop's, which alone may use the
  // list.
  if (own_waiter.is_linked() && !detail::may_use(loop, own_executor)) {
    co_await resume_on(loop);
    own_waiter.leave();
    co_await resume_on(own_executor);
  }
  co_await gyre::detail::fail_with(error);
  std::unreachable();
}

void borrowed_descriptor::add(waiter& entry, completion<readiness> result) {
  waiters_.push_back(entry);
  try {
    update_watch();
  } catch (const std::system_error& error) {
    entry.unlink();
    throw std::system_error(error.code(), operation);
  }
  entry.end_callback.emplace(std::move(result));
}

// Called by the loop. Resumes nothing itself: a completion posts the coroutine to its executor.
void borrowed_descriptor::report(readiness events) {
  constexpr readiness always_reported = readiness::error | readiness::hang_up;
  for (auto position = waiters_.begin(); position != waiters_.end();) {
    waiter& entry = *position++;
    const readiness entry_events = events & (entry.interest | always_reported);
    if (entry_events == readiness::none) continue;
    entry.unlink();
    entry.end_callback->set_value(entry_events);
  }
  try {
    update_watch();
  } catch (const std::system_error& error) {  // the descriptor was closed
    end_waits(error.code());
  }
}

// Watches for what the waiters need, and for nothing without a waiter.
void borrowed_descriptor::update_watch() {
  readiness interest = readiness::none;
  for (const waiter& entry : waiters_) interest = interest | entry.interest;
  if (interest == readiness::none) {
    watch_->stop();
  } else {
    watch_->start(interest);
  }
}

void borrowed_descriptor::release() noexcept {
  if (!watch_) return;
  watch_.reset();
  end_waits(errc::closed);
}

void borrowed_descriptor::end_waits(std::error_code reason) noexcept {
  while (waiter* const first = waiters_.pop_front()) first->end_callback->set_error(reason);
}

void borrowed_descriptor::waiter::leave() noexcept {
  if (!is_linked()) return;
  unlink();
  try {
    owner.update_watch();
    // NOLINTNEXTLINE(bugprone-empty-catch): the loop then reports more events than are awaited
  } catch (const std::system_error&) {
  }
}

}  // namespace gyre::io
