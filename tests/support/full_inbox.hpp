// SPDX-License-Identifier: Apache-2.0
// An inbox without memory, for those who have to post where nothing may be thrown.
#pragma once

#include <gyre/exec/inbox/inbox.hpp>
#include <gyre/exec/inbox/mutex.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace gyre::test {

/// Whether all such inboxes are.
inline bool inbox_full = false;

class inbox_that_may_be_full {
 public:
  static constexpr inbox::ordering order = inbox::mutex::order;
  template <class F>
  void push(F&& callable) {
    if (inbox_full) throw std::bad_alloc();
    inbox_.push(std::forward<F>(callable));
  }
  void run(inbox::batch& some) { inbox_.run(some); }
  bool ready() noexcept { return inbox_.ready(); }
  std::size_t pending() const noexcept { return inbox_.pending(); }

 private:
  inbox::mutex inbox_;
};

}  // namespace gyre::test
