// SPDX-License-Identifier: Apache-2.0
// exit_status: how a child process ended.
#pragma once

#include <optional>

namespace gyre::io {

/// The exit code of a process, or the signal that ended it. A value of two integers.
class exit_status {
 public:
  /// Returns the status of a process that ended by exit(), or by returning from main().
  static constexpr exit_status exited(int code) noexcept { return {code, 0}; }
  /// Returns the status of a process that a signal ended.
  static constexpr exit_status killed(int signal) noexcept { return {0, signal}; }

  /// Returns whether the process exited with code 0.
  constexpr bool success() const noexcept { return code_ == 0 && signal_ == 0; }
  /// Returns the code with which the process exited, 0 to 255; std::nullopt if a signal ended it.
  constexpr std::optional<int> code() const noexcept {
    return signal_ == 0 ? std::optional(code_) : std::nullopt;
  }
  /// Returns the signal that ended the process; std::nullopt if it exited.
  constexpr std::optional<int> signal() const noexcept {
    return signal_ != 0 ? std::optional(signal_) : std::nullopt;
  }

  friend constexpr bool operator==(exit_status, exit_status) noexcept = default;

 private:
  constexpr exit_status(int code, int signal) noexcept : code_(code), signal_(signal) {}

  int code_;
  int signal_;
};

}  // namespace gyre::io
