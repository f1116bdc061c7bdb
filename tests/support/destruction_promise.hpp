// SPDX-License-Identifier: Apache-2.0
// A member that fulfils a promise when its owner, such as a thread's hooks, is destroyed.
#pragma once

#include <future>
#include <utility>

namespace gyre::test {

/// Sets the value of `announced` when the last owner is destroyed.
struct destruction_promise {
  explicit destruction_promise(std::promise<void>& announced) : end(&announced) {}
  destruction_promise(destruction_promise&& other) noexcept
      : end(std::exchange(other.end, nullptr)) {}
  ~destruction_promise() {
    if (end != nullptr) end->set_value();
  }
  std::promise<void>* end;
};

}  // namespace gyre::test
