// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/file_operation.hpp>

#include <gyre/io/backend.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <cerrno>
#include <new>

namespace gyre::io::detail {

void perform(file_steps& steps) noexcept {
  for (auto next = steps.begin(); next;) next = steps.go_on(io::perform(*next));
}

namespace {

// The loop that a coroutine of the executor `where`, which runs now, may use; or null.
event_loop* loop_of(executor& where) noexcept {
  event_loop* const here = event_loop::current();
  if (&where == here || &where == &inline_executor()) return here;
  // One that does not run yet, or whose task runs another one.
  auto* const loop = dynamic_cast<event_loop*>(&where);
  return loop != nullptr && (here == nullptr || loop->in_loop_thread()) ? loop : nullptr;
}

}  // namespace

ring_place ring_for(const file_way& way, executor& where) noexcept {
  if (way.pool != nullptr || !way.suits_ring) return {};
  event_loop* const loop = loop_of(where);
  backend* const io = loop != nullptr ? loop->io() : nullptr;
  file_service* const files = io != nullptr ? io->files() : nullptr;
  if (files == nullptr || !files->can(way.kind)) return {};
  return {loop, files};
}

bool ring_operation::begin(std::coroutine_handle<> awaiting, inplace_stop_token stop) {
  waiting_ = awaiting;
  if (go_on(steps_.begin())) return false;
  if (stop.stop_possible()) stop_callback_.emplace(stop, on_stop{this});
  return true;
}

// Whether it is over; if not, a call is under way.
bool ring_operation::go_on(file_steps::next next) noexcept {
  while (next) {
    command = *next;
    const std::optional<result> made =
        stopping_ ? result::failure(ECANCELED) : service_.start(*this);
    if (!made) return false;
    next = after(*made);
  }
  return true;
}

file_steps::next ring_operation::after(result made) noexcept {
  const bool interrupted = made.error_number() == EINTR && command.kind != file_call_kind::close;
  return interrupted ? file_steps::next(command) : steps_.go_on(made);
}

void ring_operation::on_completion(file_call& completed, result made) {
  auto& self = static_cast<ring_operation&>(completed);
  if (!self.go_on(self.after(made))) return;
  self.forget_stop();
  gyre::detail::resume(self.waiting_);
}

// Any thread.
void ring_operation::stop() noexcept try {
  stop_target_ = std::make_shared<ring_operation*>(this);
  home_.post([target = stop_target_] {
    if (*target != nullptr) (*target)->take_back();
  });
} catch (const std::bad_alloc&) {
  return;  // it runs to its end
}

void ring_operation::take_back() noexcept {
  stopping_ = true;
  service_.take_back(*this);
}

void ring_operation::forget_stop() noexcept {
  stop_callback_.reset();  // waits for a stop on another thread
  if (stop_target_ != nullptr) *stop_target_ = nullptr;
}

ring_operation::~ring_operation() {
  if (!is_linked()) return;
  forget_stop();
  // What has come of it may be a descriptor.
  if (const std::optional<result> made = service_.cancel(*this)) {
    static_cast<void>(steps_.go_on(*made));
  }
}

}  // namespace gyre::io::detail
