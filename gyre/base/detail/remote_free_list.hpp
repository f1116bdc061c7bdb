// SPDX-License-Identifier: Apache-2.0
// remote_free_list: blocks on their way home to the heap of another thread, and that heap's
// ownership: the whole concurrent protocol of the slab, in one word.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstdint>

namespace gyre::detail {

/// A stack of Node (a type with a member `Node* next`) that any thread pushes to and the owner
/// takes as a whole. Ownership gives exclusive access to the heap. A list without an owner holds no
/// node, so none is forgotten, and there is no ABA problem, because no operation takes a single
/// one.
///
/// | word             | push_or_claim()          | take_all() | try_abandon() | try_claim() |
/// |------------------|--------------------------|------------|---------------|-------------|
/// | orphaned (first) | empty, claimed           | -          | -             | empty       |
/// | empty            | the node                 | -          | orphaned      | false       |
/// | top of the stack | the node, above the rest | empty      | false         | false       |
template <typename Node>
class remote_free_list {
 public:
  constexpr remote_free_list() noexcept = default;
  /// Hands `node` to the owner and returns false. When there is none, makes the caller the owner
  /// and returns true; the node then is still the caller's. Any thread.
  [[nodiscard]] bool push_or_claim(Node* node) {
    // Relaxed: only compared, and stored in the node; the exchange below confirms it.
    word top = head_.load(std::memory_order_relaxed);
    for (;;) {
      if (top == orphaned) {
        if (try_claim()) return true;
        top = head_.load(std::memory_order_relaxed);
        continue;
      }
      node->next = to_node(top);
      // Release: pairs with the acquire of take_all(), so the owner sees the node's link and
      // everything its last user did. Relaxed on failure: only compared.
      if (head_.compare_exchange_weak(top, to_word(node), std::memory_order_release,
                                      std::memory_order_relaxed)) {
        return false;
      }
    }
  }
  /// Takes all nodes, newest first, linked by `next`; null if there are none. Owner only.
  [[nodiscard]] Node* take_all() {
    // Relaxed: a look to spare the exchange; a node that it misses is found the next time.
    if (head_.load(std::memory_order_relaxed) == empty) return nullptr;
    // Acquire: pairs with the release of every push_or_claim() whose node is taken (a chain of
    // read-modify-writes is one release sequence).
    return to_node(head_.exchange(empty, std::memory_order_acquire));
  }
  /// Gives ownership up and returns true; or returns false, still the owner, when there are nodes
  /// to take first. Owner only.
  [[nodiscard]] bool try_abandon() {
    word expected = empty;
    // Release: pairs with the acquire of try_claim(), so the next owner sees what this one did.
    // Relaxed on failure: nothing is concluded but that there is work.
    return head_.compare_exchange_strong(expected, orphaned, std::memory_order_release,
                                         std::memory_order_relaxed);
  }
  /// Makes the caller the owner if there is none. Any thread.
  [[nodiscard]] bool try_claim() {
    word expected = orphaned;
    // Acquire: pairs with the release of try_abandon(). Relaxed on failure: nothing is concluded.
    return head_.compare_exchange_strong(expected, empty, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  /// Whether there is no owner at the moment. A hint. Any thread.
  [[nodiscard]] bool is_orphaned() const {
    return head_.load(std::memory_order_relaxed) == orphaned;  // relaxed: a hint
  }

 private:
  using word = std::uintptr_t;
  static constexpr word empty = 0;
  static constexpr word orphaned = 1;  // the address of no node

  static word to_word(Node* node) noexcept { return reinterpret_cast<word>(node); }
  static Node* to_node(word address) noexcept { return reinterpret_cast<Node*>(address); }

  atomic<word> head_{orphaned};
};

}  // namespace gyre::detail
