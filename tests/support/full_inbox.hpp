// SPDX-License-Identifier: Apache-2.0
// An inbox that can be out of memory, for tests of code that posts where nothing may be thrown.
#pragma once

#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/exec/inbox/mutex.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace gyre::test {

/// Whether every inbox_that_may_be_full is full.
inline bool inbox_full = false;

class inbox_that_may_be_full {
 public:
  static constexpr inbox::ordering order = inbox::mutex::order;
  template <class F>
  void push(F&& callable) {
    if (inbox_full) throw std::bad_alloc();
    inbox_.push(std::forward<F>(callable));
  }
  void run(inbox::batch& batch) { inbox_.run(batch); }
  bool ready() noexcept { return inbox_.ready(); }
  std::size_t pending() const noexcept { return inbox_.pending(); }

 private:
  inbox::mutex inbox_;
};

}  // namespace gyre::test
