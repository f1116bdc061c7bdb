// SPDX-License-Identifier: Apache-2.0
// atomic_intrusive_stack: a lock-free stack with many producers that is emptied as a whole
// (Treiber, 1986). There is no ABA problem, because no operation takes a single element.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_queue.hpp>

#include <type_traits>
#include <utility>

namespace gyre {

/// A stack of T, which derives from Node (see intrusive_queue). It is drained as a whole, oldest
/// element first.
///
/// Thread-safety: every member may be called from any thread; lock-free.
/// Lifetime: the stack owns nothing; elements must outlive their stay in it.
/// Complexity: push() is one compare-and-swap, repeated under contention. No allocation.
template <typename T, typename Node = intrusive_node>
class atomic_intrusive_stack {
 public:
  constexpr atomic_intrusive_stack() noexcept = default;
  atomic_intrusive_stack& operator=(atomic_intrusive_stack&&) = delete;

  /// Adds `value`, and returns whether the stack was empty: the caller must then wake the consumer,
  /// and sees all writes of the consumer before its pop_all().
  bool push(T& value) {
    static_assert(std::is_base_of_v<intrusive_node, Node> && std::is_base_of_v<Node, T>);
    intrusive_node* node = static_cast<Node*>(&value);
    // relaxed: the value is only compared and stored in the node; the exchange below verifies it.
    intrusive_node* top = top_.load(std::memory_order_relaxed);
    do {
      node->next = top;
      // release: pairs with the acquire in pop_all(), which then sees the node's link and contents.
      // acquire: pairs with the release of the pop_all() that emptied the stack. relaxed on
      // failure: the value is only compared.
    } while (!top_.compare_exchange_weak(top, node, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
    return top == nullptr;
  }
  /// Takes out all elements, the oldest first. One atomic exchange, and O(n) to reverse the order.
  [[nodiscard]] intrusive_queue<T, Node> pop_all() {
    intrusive_queue<T, Node> oldest_first;
    // acquire: pairs with the release of every push() whose element is taken (a chain of
    // read-modify-writes is one release sequence). release: pairs with the acquire in push().
    for (intrusive_node* node = top_.exchange(nullptr, std::memory_order_acq_rel);
         node != nullptr;) {
      intrusive_node* next_node = std::exchange(node->next, nullptr);
      oldest_first.push_front(static_cast<T&>(static_cast<Node&>(*node)));
      node = next_node;
    }
    return oldest_first;
  }
  /// Returns whether the stack is empty; a hint.
  [[nodiscard]] bool empty() const {
    return top_.load(std::memory_order_relaxed) == nullptr;  // relaxed: the result is a hint
  }

 private:
  detail::atomic<intrusive_node*> top_{nullptr};
};

}  // namespace gyre
