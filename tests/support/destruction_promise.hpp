// SPDX-License-Identifier: Apache-2.0
// Lets a test wait for the destruction of what owns it, such as a thread's hooks.
#pragma once

#include <future>
#include <utility>

namespace gyre::test {

/// Keeps its promise when its last owner is gone.
struct last_breath {
  explicit last_breath(std::promise<void>& announced) : end(&announced) {}
  last_breath(last_breath&& other) noexcept : end(std::exchange(other.end, nullptr)) {}
  ~last_breath() {
    if (end != nullptr) end->set_value();
  }
  std::promise<void>* end;
};

}  // namespace gyre::test
