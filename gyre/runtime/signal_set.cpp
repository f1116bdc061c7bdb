// SPDX-License-Identifier: Apache-2.0
#include <gyre/runtime/signal_set.hpp>

#include <gyre/base/error.hpp>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace gyre {
namespace {

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

unique_fd open_signalfd(const sigset_t& signals) {
  unique_fd descriptor(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!descriptor) detail::throw_errno("signalfd");
  return descriptor;
}

// The number of this thread's sets that receive a signal which was not blocked before the first.
constinit thread_local std::array<std::uint32_t, NSIG> sets_receiving{};

}  // namespace

signal_set::blocked_signals::blocked_signals(const sigset_t& signals) {
  sigset_t before;
  if (const int error = ::pthread_sigmask(SIG_BLOCK, &signals, &before); error != 0) {
    detail::throw_system_error(error, "pthread_sigmask");
  }
  sigemptyset(&signals_);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (sigismember(&signals, signal) != 1) continue;
    std::uint32_t& sets = sets_receiving[static_cast<std::size_t>(signal)];
    if (sigismember(&before, signal) == 1 && sets == 0) continue;
    sigaddset(&signals_, signal);
    ++sets;
  }
}

signal_set::blocked_signals::~blocked_signals() {
  sigset_t unblocked;
  sigemptyset(&unblocked);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (sigismember(&signals_, signal) != 1) continue;
    std::uint32_t& sets = sets_receiving[static_cast<std::size_t>(signal)];
    if (sets > 0) --sets;  // 0 on another thread than the constructor's
    if (sets == 0) sigaddset(&unblocked, signal);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &unblocked, nullptr);
}

signal_set::signal_set(event_loop& loop, std::span<const int> signals)
    : blocked_(set_of(signals)),
      descriptor_(open_signalfd(set_of(signals))),
      callback_(nullptr),
      watch_(loop, descriptor_.get(), [this](readiness) { receive(); }),
      waits_(loop, descriptor_.get(), *this) {}

signal_set::signal_set(event_loop& loop, std::span<const int> signals, function callback)
    : blocked_(set_of(signals)),
      descriptor_(open_signalfd(set_of(signals))),
      callback_(std::move(callback)),
      watch_(loop, descriptor_.get(), [this](readiness) { receive(); }),
      waits_(loop, descriptor_.get(), *this) {
  watch_.start(readiness::readable);
}

void unblock_signals() noexcept {
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

void signal_set::throw_has_function() {
  throw std::logic_error(
      "gyre::signal_set: wait() needs a set without a function, which would get the signals");
}

std::optional<std::expected<signal_info, std::error_code>> signal_set::try_take() noexcept {
  signal_info info;
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return info;
}

// One signal per call: the function may destroy this set, and a level-triggered watch reports what
// is left in the next turn.
void signal_set::receive() {
  if (const auto info = try_take()) callback_(**info);
}

}  // namespace gyre
