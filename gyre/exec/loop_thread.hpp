// SPDX-License-Identifier: Apache-2.0
// A thread that runs a loop.
//
//     gyre::loop_thread io({.name = "io"});
//     io.loop().post([&] { … });
#pragma once

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gyre/base/detail/named_thread.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/loop.hpp>

namespace gyre {

/// How a thread and its loop are set up.
template <class Loop>
struct loop_thread_options {
  /// Shown by ps and debuggers; the kernel keeps the first 15 bytes. Empty: that of the thread that
  /// makes it.
  std::string name = {};
  /// The CPUs it may run on. Empty: those of the thread that makes it.
  std::vector<int> cpus = {};
  /// Called on the thread before the loop runs, and after it has run (not when an exception left
  /// run()).
  move_only_function<void(Loop&)> on_start = {};
  move_only_function<void(Loop&)> on_stop = {};
  gyre::loop_options loop = {};
};

/// A loop and the thread that runs it, from the constructor to stop().
///
/// The loop is ready for posts when the constructor returns, and lives as long as this object. What
/// `on_start` throws leaves the constructor; what run() or `on_stop` throws ends the thread and
/// leaves join(). loop() and stop() may be called by any thread, the rest by the owner. The
/// destructor stops and joins, and terminates the program if an exception was left that no join()
/// has taken. A task of the loop, or `on_stop`, may destroy this object: the thread then ends its
/// turn and frees the loop itself.
template <class Loop>
class basic_loop_thread {
 public:
  using loop_type = Loop;
  using options = loop_thread_options<Loop>;

  /// Returns once `on_start` has run. Throws std::system_error (EAGAIN: no thread, EMFILE: no
  /// descriptor, EINVAL: a CPU that is not there), and what on_start throws.
  explicit basic_loop_thread(options how = {}) : work_(std::make_unique<work>(std::move(how))) {
    std::promise<void> started;
    std::future<void> start = started.get_future();
    work* const begun = work_.get();
    thread_.emplace(
        begun->how.name, begun->how.cpus,
        [begun, started = std::move(started)]() mutable { begun->run(std::move(started)); });
    try {
      start.get();
    } catch (...) {
      thread_->join();
      throw;
    }
  }
  basic_loop_thread(const basic_loop_thread&) = delete;
  basic_loop_thread& operator=(const basic_loop_thread&) = delete;
  ~basic_loop_thread() {
    stop();
    if (thread_->is_current()) {
      thread_->detach();
      work_->mine = std::move(work_);
      return;
    }
    thread_->join();
    if (work_->error) std::terminate();
  }

  Loop& loop() noexcept { return work_->loop; }

  /// As the loop's stop(): returns at once; the loop ends its turn.
  void stop() noexcept { loop().stop(); }

  /// Waits until the thread has ended. Throws what ended it, if an exception did, and
  /// std::system_error (EDEADLK) when called by the thread itself.
  void join() {
    thread_->join();
    if (work_->error) std::rethrow_exception(std::exchange(work_->error, nullptr));
  }
  /// The same, but at most for `timeout`; false when that has passed.
  [[nodiscard]] bool join_for(std::chrono::nanoseconds timeout) {
    if (!thread_->join_for(timeout)) return false;
    join();
    return true;
  }

 private:
  struct work {
    explicit work(options&& given) : how(std::move(given)), loop(std::move(how.loop)) {}

    void run(std::promise<void> started) noexcept {
      try {
        if (how.on_start) how.on_start(loop);
      } catch (...) {
        started.set_exception(std::current_exception());
        return;
      }
      started.set_value();
      try {
        loop.run();
        if (how.on_stop) how.on_stop(loop);
      } catch (...) {
        error = std::current_exception();
      }
      if (mine == nullptr) return;
      if (error) std::terminate();
      const std::unique_ptr<work> freed = std::move(mine);
    }

    options how;
    Loop loop;
    std::exception_ptr error;
    std::unique_ptr<work> mine;  // set when the thread is the last to hold it
  };

  std::unique_ptr<work> work_;
  std::optional<detail::named_thread> thread_;
};

/// A thread that runs the default loop.
using loop_thread = basic_loop_thread<loop>;

}  // namespace gyre
