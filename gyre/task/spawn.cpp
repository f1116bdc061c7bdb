// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/spawn.hpp>

#include <gyre/base/error.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/task/detail/started_task.hpp>

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <new>
#include <utility>

namespace gyre::detail {
namespace {

/// A coroutine that is to be started, and its settings.
template <class Handler>
struct spawned_work {
  executor& target;
  inplace_stop_token stop;
  task<> work;
  [[no_unique_address]] Handler on_error;
  [[no_unique_address]] traced_field<const char*> name;
};

constinit detached_end ends_program([](const detached_end&,
                                       const std::exception_ptr& error) noexcept {
  end_detached(error);
});

/// A started coroutine without spawn_options::on_error.
class detached_task final : task_context {
 public:
  struct handler {};

  explicit detached_task(spawned_work<handler>& source) noexcept {
    where = &source.target;
    stop = source.stop;
    finished = &destroy;
    trace.name.set(source.name.get());
  }

  void start(task<> work) { task_access::state(work).start_detached(*this, ends_program); }

 private:
  static std::coroutine_handle<> destroy(task_context& self) noexcept;
};

/// A started coroutine with spawn_options::on_error.
class handled_task final : started_task<handled_task> {
 public:
  using handler = move_only_function<void(std::exception_ptr)>;

  explicit handled_task(spawned_work<handler>& source) noexcept
      : started_task(source.target, std::move(source.work)), on_error_(std::move(source.on_error)) {
    stop = source.stop;
    trace.name.set(source.name.get());
  }

  void start() { started_task::start(); }

 private:
  friend started_task;

  void on_work_ended() noexcept;

  handler on_error_;
};

/// A coroutine that was posted to its executor and not started yet. Its block is large enough for
/// the `Started` task that replaces it there, and frees the block when the coroutine ends.
template <class Started>
class posted_task final : operation {
 public:
  using handler = typename Started::handler;

  static constexpr std::size_t bytes() noexcept {
    return std::max(sizeof(posted_task), sizeof(Started));
  }
  static void post(spawned_work<handler> source) {
    void* const memory = slab_allocate(bytes());
    executor& target = source.target;
    // Runs the task, or destroys it if the executor is destroyed first.
    target.post_discardable(*new (memory) posted_task(std::move(source)),
                            [](operation& self) noexcept {
                              auto& op = static_cast<posted_task&>(self);
                              op.~posted_task();
                              slab_deallocate(&op, bytes());
                            });
  }

 private:
  explicit posted_task(spawned_work<handler>&& source) noexcept
      : operation(&on_start), spawned_(std::move(source)) {}

  static void on_start(operation& self) {
    auto& posted = static_cast<posted_task&>(self);
    spawned_work<handler> spawned = std::move(posted.spawned_);
    posted.~posted_task();
    auto* const started = new (&posted) Started(spawned);
    if constexpr (std::same_as<Started, detached_task>) {
      started->start(std::move(spawned.work));
    } else {
      started->start();
    }
  }

  spawned_work<handler> spawned_;
};

std::coroutine_handle<> detached_task::destroy(task_context& self) noexcept {
  auto* const ended = static_cast<detached_task*>(&self);
  ended->~detached_task();
  slab_deallocate(ended, posted_task<detached_task>::bytes());
  return std::noop_coroutine();
}

void handled_task::on_work_ended() noexcept {
  if (std::exception_ptr error = this->take_error()) on_error_(error_outside(std::move(error)));
  this->~handled_task();
  slab_deallocate(this, posted_task<handled_task>::bytes());
}

static_assert(records_backtraces || posted_task<detached_task>::bytes() == 48, "spawn() says so");

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
  traced_field<const char*> name;
  name.set(options.name);
  if (options.on_error) {
    posted_task<handled_task>::post(
        {target, options.stop, std::move(work), std::move(options.on_error), name});
  } else {
    posted_task<detached_task>::post({target, options.stop, std::move(work), {}, name});
  }
}

}  // namespace gyre::detail
