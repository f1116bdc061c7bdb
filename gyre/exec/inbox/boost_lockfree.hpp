// SPDX-License-Identifier: Apache-2.0
// inbox::boost_lockfree: an inbox on boost::lockfree::queue, for comparison. Needs Boost's headers;
// gyre.hpp does not include it.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <boost/lockfree/queue.hpp>

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace gyre::inbox {

/// A `boost::lockfree::queue` of pointers to callables in blocks of the slab (the queue takes only
/// trivially copyable elements).
///
/// Order: total (Michael and Scott, 1996). No node is freed before the inbox is destroyed.
class boost_lockfree {
 public:
  static constexpr ordering order = ordering::total;

  boost_lockfree() = default;
  boost_lockfree& operator=(boost_lockfree&&) = delete;
  ~boost_lockfree() {
    queue_.consume_all([](node* old_node) { delete old_node; });
  }

  template <class F>
  void push(F&& callable) {
    auto new_node = std::make_unique<node>(std::forward<F>(callable));
    if (!queue_.push(new_node.get())) throw std::bad_alloc();
    static_cast<void>(new_node.release());
  }

  void run(batch& tasks) {
    for (node* front = nullptr; tasks.more() && queue_.pop(front);) {
      const std::unique_ptr<node> owner(front);
      tasks.count(1);
      owner->object();
    }
  }

  bool ready() noexcept { return !queue_.empty(); }
  /// Returns 1 if there are tasks, else 0, because the queue does not count its elements.
  std::size_t pending() const noexcept { return queue_.empty() ? 0 : 1; }

 private:
  using node = gyre::detail::slab_box<move_only_function<void()>>;
  static constexpr std::size_t initial_nodes = 1024;

  boost::lockfree::queue<node*> queue_{initial_nodes};
};

static_assert(policy<boost_lockfree>);

}  // namespace gyre::inbox
