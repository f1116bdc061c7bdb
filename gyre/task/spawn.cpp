// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/spawn.hpp>

#include <gyre/base/error.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/task/detail/started_task.hpp>

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

namespace gyre::detail {
namespace {

/// The Handler type for a coroutine without spawn_options::on_error.
struct no_handler {
  explicit operator bool() const noexcept { return false; }
  void operator()(std::exception_ptr) const noexcept {}
};

/// A coroutine that was started. Destroys itself and frees its memory when the coroutine ends.
template <class Handler>
class running_task final : started_task<running_task<Handler>> {
 public:
  running_task(executor& target, inplace_stop_token token, task<>&& work, Handler&& on_error,
               const char* name) noexcept
      : started_task<running_task>(target, std::move(work)), on_error_(std::move(on_error)) {
    this->stop = token;
    this->trace.name.set(name);
  }

  using started_task<running_task>::start;

 private:
  friend started_task<running_task>;

  void on_work_ended() noexcept;

  [[no_unique_address]] Handler on_error_;
};

/// A task posted to its executor and not yet started. Its block is large enough for the
/// running_task that replaces it there.
template <class Handler>
class posted_task final : operation {
 public:
  static constexpr std::size_t bytes() noexcept {
    return std::max(sizeof(posted_task), sizeof(running_task<Handler>));
  }
  static void post(executor& target, task<>&& work, inplace_stop_token stop, Handler&& on_error,
                   const char* name) {
    void* const memory = slab_allocate(bytes());
    auto* const posted =
        new (memory) posted_task(target, std::move(work), stop, std::move(on_error), name);
    // Runs the task, or destroys it if the executor is destroyed first.
    target.post_discardable(*posted, [](operation& self) noexcept {
      auto& op = static_cast<posted_task&>(self);
      op.~posted_task();
      slab_deallocate(&op, bytes());
    });
  }

 private:
  posted_task(executor& target, task<>&& work, inplace_stop_token stop, Handler&& on_error,
              const char* name) noexcept
      : operation(&on_start),
        where_(&target),
        stop_(stop),
        work_(std::move(work)),
        on_error_(std::move(on_error)),
        name_(name) {}

  static void on_start(operation& self) {
    auto& posted = static_cast<posted_task&>(self);
    executor& where = *posted.where_;
    const inplace_stop_token stop = posted.stop_;
    task<> work = std::move(posted.work_);
    Handler on_error = std::move(posted.on_error_);
    const char* const name = posted.name_;
    posted.~posted_task();
    (new (&posted) running_task<Handler>(where, stop, std::move(work), std::move(on_error), name))
        ->start();
  }

  executor* where_;
  inplace_stop_token stop_;
  task<> work_;
  [[no_unique_address]] Handler on_error_;
  const char* name_;
};

template <class Handler>
void running_task<Handler>::on_work_ended() noexcept {
  if (std::exception_ptr error = this->take_error()) {
    if (on_error_) {
      on_error_(error_outside(std::move(error)));
    } else if (error != cancellation()) {
      terminate_detached(error);
    }
  }
  this->~running_task();
  slab_deallocate(this, posted_task<Handler>::bytes());
}

static_assert(records_backtraces || posted_task<no_handler>::bytes() <= 64, "spawn() says so");

}  // namespace

// Terminates within an exception handler, so that a std::terminate_handler finds the exception.
void terminate_detached(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (...) {
    terminate_with(error, "left a detached coroutine");
  }
}

void spawn_task(executor& target, task<> work, spawn_options options) {
  if (!work.valid()) throw_empty_task();
  if (options.on_error) {
    using handler = move_only_function<void(std::exception_ptr)>;
    posted_task<handler>::post(target, std::move(work), options.stop, std::move(options.on_error),
                               options.name);
  } else {
    posted_task<no_handler>::post(target, std::move(work), options.stop, {}, options.name);
  }
}

}  // namespace gyre::detail
