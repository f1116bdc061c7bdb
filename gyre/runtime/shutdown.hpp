// SPDX-License-Identifier: Apache-2.0
// shutdown_step, shutdown_hook: a program's part in the orderly shutdown of a runtime; see
// runtime::on_shutdown().
#pragma once

#include <gyre/base/clock.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace gyre {

/// The phases of an orderly shutdown, in this order. Each begins when all hooks of the one before
/// are done; `force` only if the time limit passes, or it is requested, before `drain` has ended.
enum class shutdown_phase : std::uint8_t {
  /// Accept nothing new: close listeners, stop timers.
  stop_accepting,
  /// Finish the work that has begun. Ends when all tasks of the runtime have ended, too.
  drain,
  /// Drop everything now.
  force,
};

namespace detail {
class shutdown_entry;
class shutdown_sequence;
}  // namespace detail

/// A hook's part in a phase, which lasts until done() is called or this object is destroyed. The
/// runtime waits for it.
///
/// Thread-safety: one thread at a time, any.
/// Lifetime: keeps the runtime alive, as its end waits for the step.
class shutdown_step {
 public:
  /// The phase of the step; a later one than the hook's if the hook was registered too late.
  shutdown_phase phase() const noexcept { return phase_; }
  /// The time when `force` begins; within `force`, the time when the program exits.
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
/// unregisters.
///
/// Thread-safety: one thread at a time, any.
/// Lifetime: may outlive the runtime.
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

  /// Unregisters the function. Waits while another thread runs it. A step that it keeps, and a
  /// coroutine that it returned, go on.
  void reset() noexcept;

 private:
  friend detail::shutdown_sequence;
  explicit shutdown_hook(std::shared_ptr<detail::shutdown_entry> entry) noexcept
      : entry_(std::move(entry)) {}

  std::shared_ptr<detail::shutdown_entry> entry_;
};

}  // namespace gyre
