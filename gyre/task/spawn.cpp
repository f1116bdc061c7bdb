// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/spawn.hpp>

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/error.hpp>

namespace gyre::detail {
namespace {

// Owns itself: from spawn() until its coroutine has finished.
class detached_task final : public slab_object, task_context, operation {
 public:
  detached_task(executor& target, task<>&& work, spawn_options&& options) noexcept
      : operation([](operation& self) { static_cast<detached_task&>(self).start(); }),
        work_(std::move(work)),
        on_error_(std::move(options.on_error)) {
    where = &target;
    stop = options.stop;
    finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
      static_cast<detached_task&>(self).end();
      return std::noop_coroutine();
    };
#if GYRE_ASYNC_BACKTRACE
    name = options.name;
#endif
  }

  // Runs it on its executor, or destroys it together with that.
  void post() {
    where->post_discardable(
        *this, [](operation& self) noexcept { delete &static_cast<detached_task&>(self); });
  }

 private:
  void start() { task_access::state(work_).start(*this); }

  void end() noexcept {
    if (std::exception_ptr error = task_access::state(work_).take_error()) {
      if (on_error_) {
        on_error_(error_outside(std::move(error)));
      } else if (error != cancellation()) {
        terminate(error);
      }
    }
    delete this;
  }

  // Within a handler, where a std::terminate_handler finds the exception.
  [[noreturn]] static void terminate(const std::exception_ptr& error) noexcept {
    try {
      std::rethrow_exception(error);
    } catch (...) {
      terminate_with(error, "left a detached coroutine");
    }
  }

  task<> work_;
  move_only_function<void(std::exception_ptr)> on_error_;
};

}  // namespace

void spawn_task(executor& where, task<> detached, spawn_options options) {
  if (!detached.valid()) throw_empty_task();
  (new detached_task(where, std::move(detached), std::move(options)))->post();
}

}  // namespace gyre::detail
