// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/thread_pool.hpp>

#include <gyre/pool/detail/pool_core.hpp>

namespace gyre {
namespace {

using detail::admission;
using detail::admission_result;

void throw_unless_granted(admission_result result) {
  if (result != admission_result::granted) [[unlikely]]
    detail::throw_refused(result);
}

}  // namespace

thread_pool::thread_pool(thread_pool_options settings)
    : core_(detail::pool_core::make(std::move(settings))) {}
thread_pool::~thread_pool() { core_->shut_down(); }

[[gnu::noinline]] void thread_pool::submit_built(detail::task_builder builder,
                                                 task_priority priority) {
  throw_unless_granted(core_->submit(builder, priority, admission::waiting::blocks));
}
[[gnu::noinline]] bool thread_pool::try_submit_built(detail::task_builder builder,
                                                     task_priority priority) {
  return core_->submit(builder, priority, admission::waiting::fails) == admission_result::granted;
}
[[gnu::noinline]] void thread_pool::submit_built_at(detail::task_builder builder,
                                                    steady_time deadline) {
  throw_unless_granted(core_->submit_at(builder, deadline));
}

// The functions are not inlined into coroutines, because they use thread-locals: see this_worker.
[[gnu::noinline]] void thread_pool::post(operation& op) noexcept { core_->post(op); }
[[gnu::noinline]] bool thread_pool::running_here() const noexcept { return core_->running_here(); }
[[gnu::noinline]] fork_queue* thread_pool::fork_queue_here() noexcept {
  return core_->fork_queue_here();
}
timer_service* thread_pool::timers() noexcept { return core_->timers(); }

void thread_pool::pause() noexcept { core_->pause(); }
void thread_pool::resume() noexcept { core_->resume(); }
bool thread_pool::paused() const noexcept { return core_->life_cycle().is_paused(); }

void thread_pool::resize(std::size_t workers) { core_->resize(workers); }
std::size_t thread_pool::workers() const noexcept { return core_->workers().target(); }

std::size_t thread_pool::purge() { return core_->purge(); }
[[gnu::noinline]] void thread_pool::wait_idle() {
  static_cast<void>(core_->wait_idle(steady_time::max()));
}
[[gnu::noinline]] bool thread_pool::wait_idle_for(duration timeout) {
  return core_->wait_idle(detail::later(detail::monotonic_now(), timeout));
}

[[gnu::noinline]] void thread_pool::drain() { static_cast<void>(core_->stop(steady_time::max())); }
[[gnu::noinline]] bool thread_pool::stop(duration grace) {
  return core_->stop(detail::later(detail::monotonic_now(), grace));
}

thread_pool_metrics thread_pool::metrics() const { return core_->metrics(); }

}  // namespace gyre
