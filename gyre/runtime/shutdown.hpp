// SPDX-License-Identifier: Apache-2.0
// shutdown_step, shutdown_hook: a guard and a registration for runtime::on_shutdown().
#pragma once

#include <gyre/base/clock.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace gyre {

/// The phases of an orderly shutdown, in this order. `force` begins only if it is requested, or if
/// the time limit passes, before `drain` has ended.
enum class shutdown_phase : std::uint8_t {
  /// Stop accepting new work: close listeners, stop timers. Ends when its hooks are done.
  stop_accepting,
  /// Finish the work in progress. Ends when its hooks are done and all tasks have ended.
  drain,
  /// Drop all work now, including the work for which hooks of earlier phases still wait. Ends when
  /// its hooks are done and all tasks have ended.
  force,
};

namespace detail {
class shutdown_entry;
class shutdown_sequence;
}  // namespace detail

/// A guard that holds a phase open until done() is called or the guard is destroyed.
///
/// Thread-safety: any thread, one at a time.
/// Lifetime: run() does not return while a step is open.
class shutdown_step {
 public:
  /// The phase of the step; later than the hook's phase if the hook was registered too late.
  shutdown_phase phase() const noexcept { return phase_; }
  /// The latest time at which `force` begins or, in a step of `force`, the program exits. max(): no
  /// limit.
  steady_time deadline() const noexcept { return deadline_; }
  /// Ends the step. Idempotent.
  void done() noexcept { sequence_.reset(); }

 private:
  friend detail::shutdown_sequence;
  friend detail::shutdown_entry;
  shutdown_step(detail::shutdown_sequence& sequence, shutdown_phase phase,
                steady_time deadline) noexcept
      : sequence_(&sequence), phase_(phase), deadline_(deadline) {}

  struct end_step {
    void operator()(detail::shutdown_sequence* sequence) const noexcept;
  };
  std::unique_ptr<detail::shutdown_sequence, end_step> sequence_;
  shutdown_phase phase_;
  steady_time deadline_;
};

/// The registration of a function with a runtime; see runtime::on_shutdown(). The destructor
/// unregisters the function like reset(). A default-constructed hook is empty.
///
/// Thread-safety: any thread, one at a time.
/// Lifetime: may outlive the runtime. A step that the function keeps, and a coroutine that it
/// returned, may outlive the registration: captured objects must outlive these, too.
class [[nodiscard]] shutdown_hook {
 public:
  shutdown_hook() noexcept = default;
  shutdown_hook(shutdown_hook&&) noexcept = default;
  shutdown_hook& operator=(shutdown_hook&& other) noexcept {
    if (this == &other) return *this;
    reset();
    entry_ = std::move(other.entry_);
    return *this;
  }
  ~shutdown_hook() { reset(); }

  /// Unregisters the function. Blocks while another thread runs the function.
  void reset() noexcept;

 private:
  friend detail::shutdown_sequence;
  explicit shutdown_hook(std::shared_ptr<detail::shutdown_entry> entry) noexcept
      : entry_(std::move(entry)) {}

  std::shared_ptr<detail::shutdown_entry> entry_;
};

}  // namespace gyre
