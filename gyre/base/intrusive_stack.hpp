// SPDX-License-Identifier: Apache-2.0
// atomic_intrusive_stack: a lock-free stack with many producers that is emptied as a whole
// (Treiber, 1986). As no operation takes a single element, there is no ABA problem.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_queue.hpp>

#include <type_traits>
#include <utility>

namespace gyre {

/// A stack of T, which derives from Node (see intrusive_queue), drained as a whole, oldest first.
///
/// Thread-safety: every member may be called from any thread; lock-free.
/// Lifetime: the stack owns nothing; elements must outlive their stay in it.
/// Complexity: push() is one compare-and-swap, repeated under contention. No allocation.
template <typename T, typename Node = intrusive_node>
class atomic_intrusive_stack {
 public:
  constexpr atomic_intrusive_stack() noexcept = default;
  atomic_intrusive_stack& operator=(atomic_intrusive_stack&&) = delete;

  /// Adds `value`, and returns whether the stack was empty: then the caller must wake the consumer,
  /// and sees all that the consumer did before it took the elements.
  bool push(T& value) {
    static_assert(std::is_base_of_v<intrusive_node, Node> && std::is_base_of_v<Node, T>);
    intrusive_node* node = static_cast<Node*>(&value);
    // Relaxed: only compared, and stored in the node; the exchange below confirms it.
    intrusive_node* top = top_.load(std::memory_order_relaxed);
    do {
      node->next = top;
      // Release: pairs with the acquire of pop_all(), which then sees the node's link and contents.
      // Acquire: pairs with the release of the pop_all() that emptied the stack. Relaxed on
      // failure: only compared.
    } while (!top_.compare_exchange_weak(top, node, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
    return top == nullptr;
  }
  /// Takes out all elements, the oldest first. One atomic exchange, and O(n) to reverse the order.
  [[nodiscard]] intrusive_queue<T, Node> pop_all() {
    intrusive_queue<T, Node> oldest_first;
    // Acquire: pairs with the release of every push whose element is taken (a chain of
    // read-modify-writes is one release sequence). Release: pairs with the acquire of push().
    for (intrusive_node* node = top_.exchange(nullptr, std::memory_order_acq_rel);
         node != nullptr;) {
      intrusive_node* below = std::exchange(node->next, nullptr);
      oldest_first.push_front(static_cast<T&>(static_cast<Node&>(*node)));
      node = below;
    }
    return oldest_first;
  }
  /// Whether the stack is empty; a hint.
  [[nodiscard]] bool empty() const {
    return top_.load(std::memory_order_relaxed) == nullptr;  // relaxed: a hint
  }

 private:
  detail::atomic<intrusive_node*> top_{nullptr};
};

}  // namespace gyre
