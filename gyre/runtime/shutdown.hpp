// SPDX-License-Identifier: Apache-2.0
// How what runs in a runtime takes part in its orderly end: see runtime::on_shutdown().
#pragma once

#include <gyre/base/clock.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace gyre {

/// The phases of an orderly end, in this order. Each begins when all hooks of the one before are
/// done, `force` only if time runs out before the end of `drain`.
enum class shutdown_phase : std::uint8_t {
  /// Take in nothing new: close listeners, stop timers.
  stop_accepting,
  /// Finish what has been begun. It ends when all tasks of the runtime have, too.
  drain,
  /// The deadline has passed, or somebody is impatient: drop everything, now.
  force,
};

namespace detail {
class shutdown_entry;
class shutdown_sequence;
}  // namespace detail

/// A hook's part in a phase, which lasts until done() is called or this is destroyed: keep it for as
/// long as that takes. To be used by one thread at a time, any. Keeps the runtime's end waiting, so
/// the runtime outlives it.
class shutdown_step {
 public:
  shutdown_step(shutdown_step&& other) noexcept
      : sequence_(std::exchange(other.sequence_, nullptr)),
        phase_(other.phase_),
        deadline_(other.deadline_) {}
  shutdown_step& operator=(shutdown_step&& other) noexcept {
    if (this == &other) return *this;
    done();
    sequence_ = std::exchange(other.sequence_, nullptr);
    phase_ = other.phase_;
    deadline_ = other.deadline_;
    return *this;
  }
  ~shutdown_step() { done(); }

  /// The phase it is part of; a later one than asked for if the hook was registered too late.
  shutdown_phase phase() const noexcept { return phase_; }
  /// When `force` begins; within that phase, when the program gives up.
  steady_time deadline() const noexcept { return deadline_; }
  /// Tells that this part is done; the first call counts.
  void done() noexcept;

 private:
  friend detail::shutdown_sequence;
  friend detail::shutdown_entry;
  // Counted by the sequence.
  shutdown_step(detail::shutdown_sequence& sequence, shutdown_phase phase,
                steady_time deadline) noexcept
      : sequence_(&sequence), phase_(phase), deadline_(deadline) {}

  detail::shutdown_sequence* sequence_;
  shutdown_phase phase_;
  steady_time deadline_;
};

/// Keeps a function registered with a runtime, until it is destroyed; see runtime::on_shutdown().
/// May outlive the runtime. One thread at a time, any.
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

  /// Unregisters the function, which is not called any more; waits if another thread is in it. What
  /// the function has begun (a step it keeps, a coroutine) goes on.
  void reset() noexcept;

 private:
  friend detail::shutdown_sequence;
  explicit shutdown_hook(std::shared_ptr<detail::shutdown_entry> entry) noexcept
      : entry_(std::move(entry)) {}

  std::shared_ptr<detail::shutdown_entry> entry_;
};

}  // namespace gyre
