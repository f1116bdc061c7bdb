// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/thread_stack.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/system_clocks.hpp>

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <mutex>

namespace gyre::detail {
namespace {

constexpr int stack_signal = SIGVTALRM;

/// The exchange between the thread that asks and the signal handler of the thread that is asked.
///
/// | state | set by | means |
/// |---|---|---|
/// | idle | asking thread | the handler does nothing |
/// | requested | asking thread | the handler of `thread` may take the request |
/// | writing | handler | the handler writes `calls` and `count` |
/// | done | handler | the asking thread may read them |
enum class capture_state : int { idle, requested, writing, done };

struct stack_capture {
  static constexpr int max_calls = 64;

  std::mutex mutex;  // allows one request at a time
  std::atomic<capture_state> state{capture_state::idle};
  std::atomic<::pid_t> thread{0};
  std::array<void*, max_calls> calls{};
  int count = 0;
};

constinit stack_capture capture;

void write_stack(int) {
  const int old_error = errno;
  capture_state expected = capture_state::requested;
  // acquire: pairs with the release of the request. A signal that comes too late, or that is not
  // for this thread, finds no request of its own.
  if (capture.thread.load(std::memory_order_acquire) == ::gettid() &&
      capture.state.compare_exchange_strong(expected, capture_state::writing,
                                            std::memory_order_acquire)) {
    capture.count = ::backtrace(capture.calls.data(), stack_capture::max_calls);
    // release: pairs with the acquire in capture_stack().
    capture.state.store(capture_state::done, std::memory_order_release);
  }
  errno = old_error;
}

// Installs the handler, unless the program uses the signal. Requires the mutex.
bool has_handler() noexcept {
  struct sigaction old_action{};
  if (::sigaction(stack_signal, nullptr, &old_action) != 0) return false;
  if (old_action.sa_handler == &write_stack) return true;
  if (old_action.sa_handler != SIG_DFL) return false;
  // The first call loads the unwinder, which a signal handler must not do.
  std::array<void*, 4> calls{};
  static_cast<void>(::backtrace(calls.data(), static_cast<int>(calls.size())));
  struct sigaction action{};
  action.sa_handler = &write_stack;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  return ::sigaction(stack_signal, &action, nullptr) == 0;
}

// Waits until the handler is done. Returns false, and withdraws the request, if the thread does not
// take the request within `timeout`.
bool wait_for_handler(std::chrono::milliseconds timeout) noexcept {
  constexpr std::chrono::microseconds pause{200};
  const steady_time end = later(monotonic_now(), timeout);
  for (;;) {
    // acquire: pairs with the release in write_stack().
    if (capture.state.load(std::memory_order_acquire) == capture_state::done) return true;
    capture_state expected = capture_state::requested;
    if (monotonic_now() >= end &&
        capture.state.compare_exchange_strong(expected, capture_state::idle)) {
      return false;
    }
    sleep_for(pause);  // a handler that writes is done soon
  }
}

}  // namespace

std::vector<std::uint64_t> capture_stack(::pid_t thread, std::chrono::milliseconds timeout) {
  std::vector<std::uint64_t> calls;
  const std::lock_guard lock(capture.mutex);
  if (thread == ::gettid() || !has_handler()) return calls;
  calls.reserve(stack_capture::max_calls);
  capture.thread.store(thread, std::memory_order_relaxed);
  capture.state.store(capture_state::requested, std::memory_order_release);
  if (::tgkill(::getpid(), thread, stack_signal) != 0) {
    capture.state.store(capture_state::idle, std::memory_order_relaxed);
    return calls;
  }
  if (!wait_for_handler(timeout)) return calls;
  // The first two calls are the handler and the kernel's return from it.
  constexpr int own_calls = 2;
  for (int index = own_calls; index < capture.count; ++index) {
    calls.push_back(
        reinterpret_cast<std::uintptr_t>(capture.calls[static_cast<std::size_t>(index)]));
  }
  capture.state.store(capture_state::idle, std::memory_order_relaxed);
  return calls;
}

}  // namespace gyre::detail
