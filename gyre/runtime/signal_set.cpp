// SPDX-License-Identifier: Apache-2.0
#include <gyre/runtime/signal_set.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/detail/system_processes.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace gyre {
namespace {

namespace system = io::detail::system;

sigset_t set_of(std::span<const int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    if (signal == SIGKILL || signal == SIGSTOP) {
      detail::throw_system_error(EINVAL, "gyre::signal_set: SIGKILL and SIGSTOP cannot be caught");
    }
    if (sigaddset(&set, signal) != 0) detail::throw_errno("gyre::signal_set: no such signal");
  }
  return set;
}

unique_fd open_signal_queue(std::span<const int> signals) {
  return system::value_or_throw(system::open_signal_queue(set_of(signals)), "signalfd");
}

// For each signal that was not blocked before the thread's first set with it: the number of the
// thread's sets that receive the signal.
constinit thread_local std::array<std::uint32_t, NSIG> receiving_set_counts{};

}  // namespace

signal_set::blocked_signals::blocked_signals(const sigset_t& signals) {
  const sigset_t old_mask = system::change_signal_mask(SIG_BLOCK, signals);
  sigemptyset(&signals_);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (sigismember(&signals, signal) != 1) continue;
    std::uint32_t& set_count = receiving_set_counts[static_cast<std::size_t>(signal)];
    if (sigismember(&old_mask, signal) == 1 && set_count == 0) continue;
    sigaddset(&signals_, signal);
    ++set_count;
  }
}

signal_set::blocked_signals::~blocked_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (sigismember(&signals_, signal) != 1) continue;
    std::uint32_t& set_count = receiving_set_counts[static_cast<std::size_t>(signal)];
    if (set_count > 0) --set_count;  // the count is 0 if the set was constructed on another thread
    if (set_count == 0) sigaddset(&signals, signal);
  }
  system::change_signal_mask(SIG_UNBLOCK, signals);
}

signal_set::signal_set(event_loop& loop, std::span<const int> signals)
    : blocked_signals_(set_of(signals)),
      descriptor_(open_signal_queue(signals)),
      callback_(nullptr),
      watch_(loop, descriptor_.get(), [this](readiness) { receive(); }),
      waits_(loop, descriptor_.get(), *this) {}

signal_set::signal_set(event_loop& loop, std::span<const int> signals, function callback)
    : blocked_signals_(set_of(signals)),
      descriptor_(open_signal_queue(signals)),
      callback_(std::move(callback)),
      watch_(loop, descriptor_.get(), [this](readiness) { receive(); }),
      waits_(loop, descriptor_.get(), *this) {
  watch_.start(readiness::readable);
}

void unblock_signals() noexcept {
  sigset_t no_signals;
  sigemptyset(&no_signals);
  system::change_signal_mask(SIG_SETMASK, no_signals);
}

void signal_set::throw_has_function() {
  throw std::logic_error(
      "gyre::signal_set: wait() needs a set without a function, which would get the signals");
}

std::optional<std::expected<signal_info, std::error_code>> signal_set::try_take() noexcept {
  signal_info info;
  const auto bytes = std::as_writable_bytes(std::span(&info, 1));
  const io::result result = system::read(descriptor_.get(), bytes);
  if (!result || result.count() != sizeof info) return std::nullopt;
  return info;
}

// Takes one signal per call, because the function may destroy this set. The watch is
// level-triggered, so it reports further signals in the next turn.
void signal_set::receive() {
  if (const auto info = try_take()) callback_(**info);
}

}  // namespace gyre
