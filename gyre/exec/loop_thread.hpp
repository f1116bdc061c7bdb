// SPDX-License-Identifier: Apache-2.0
// loop_thread: a thread that runs a loop.
//
//     gyre::loop_thread io({.name = "io"});
//     io.loop().post([&] { … });
#pragma once

#include <gyre/base/detail/named_thread.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/loop.hpp>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gyre {

/// Settings of a thread and its loop.
template <class Loop>
struct loop_thread_options {
  /// The thread's name in ps and debuggers, cut to 15 bytes. If empty, the name of the calling
  /// thread.
  std::string name = {};
  /// The CPUs on which the thread may run. If empty, the CPUs of the calling thread.
  std::vector<int> cpus = {};
  /// Called on the thread before the loop runs.
  move_only_function<void(Loop&)> on_start = {};
  /// Called on the thread after run() has returned; not after an exception of on_start or run().
  move_only_function<void(Loop&)> on_stop = {};
  /// The options of the loop.
  gyre::loop_options loop = {};
};

/// A loop and the thread that runs it, from the constructor to stop().
///
/// Thread-safety: loop() and stop() may be called from any thread, the other members by the owner.
/// Lifetime: the loop lives as long as this object. The destructor stops the loop and joins the
/// thread. A task of the loop, or `on_stop`, may destroy this object: the thread then ends as after
/// stop() and frees the loop itself.
/// Errors: the constructor throws an exception of `on_start`. An exception of run() or `on_stop`
/// ends the thread and is kept for join(); the destructor terminates the program if join() has not
/// rethrown it.
template <class Loop>
class basic_loop_thread {
 public:
  using loop_type = Loop;
  using options = loop_thread_options<Loop>;

  /// Returns once `on_start` has run. Throws std::system_error: EAGAIN for too many threads, EMFILE
  /// for too many descriptors, EINVAL for a CPU that does not exist.
  explicit basic_loop_thread(options settings = {})
      : work_(std::make_unique<work>(std::move(settings))) {
    std::promise<void> start_promise;
    std::future<void> start = start_promise.get_future();
    work* const new_work = work_.get();
    thread_.emplace(new_work->settings.name, new_work->settings.cpus,
                    [new_work, start_promise = std::move(start_promise)]() mutable {
                      new_work->run(std::move(start_promise));
                    });
    try {
      start.get();
    } catch (...) {
      thread_->join();
      throw;
    }
  }
  basic_loop_thread& operator=(basic_loop_thread&&) = delete;
  ~basic_loop_thread() {
    stop();
    if (thread_->is_current()) {
      thread_->detach();
      work_->self = std::move(work_);
      return;
    }
    thread_->join();
    if (work_->error) std::terminate();
  }

  Loop& loop() noexcept { return work_->loop; }

  /// Returns whether the calling thread is this thread.
  bool is_current() const noexcept { return thread_->is_current(); }

  /// Stops the loop, like event_loop::stop(), without waiting for the thread.
  void stop() noexcept { loop().stop(); }

  /// Waits until the thread has ended, which requires a call of stop(). Rethrows, once, the
  /// exception that ended the thread; throws std::system_error (EDEADLK) when called by the thread
  /// itself.
  void join() {
    thread_->join();
    if (work_->error) std::rethrow_exception(std::exchange(work_->error, nullptr));
  }
  /// Like join(), but returns false if the thread has not ended after `timeout`.
  [[nodiscard]] bool join_for(duration timeout) {
    if (!thread_->join_for(timeout)) return false;
    join();
    return true;
  }

 private:
  struct work {
    explicit work(options&& chosen_options)
        : settings(std::move(chosen_options)), loop(std::move(settings.loop)) {}

    void run(std::promise<void> start_promise) noexcept {
      try {
        if (settings.on_start) settings.on_start(loop);
      } catch (...) {
        start_promise.set_exception(std::current_exception());
        return;
      }
      start_promise.set_value();
      try {
        loop.run();
        if (settings.on_stop) settings.on_stop(loop);
      } catch (...) {
        error = std::current_exception();
      }
      if (self == nullptr) return;
      if (error) std::terminate();
      const std::unique_ptr<work> owner = std::move(self);
    }

    options settings;
    Loop loop;
    std::exception_ptr error;
    std::unique_ptr<work> self;  // not null if the thread must free `work`
  };

  std::unique_ptr<work> work_;
  std::optional<detail::named_thread> thread_;
};

/// A thread that runs the default loop.
using loop_thread = basic_loop_thread<loop>;

}  // namespace gyre
