// SPDX-License-Identifier: Apache-2.0
// remote_free_list: the blocks that other threads return to a heap, and the ownership of the heap:
// the whole concurrent protocol of the slab, in one word.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstdint>

namespace gyre::detail {

/// A stack of Node (a type with a member `Node* next`) that any thread pushes to and the owner
/// takes as a whole. Ownership gives exclusive access to the heap. A list without an owner holds no
/// node, so no node is lost. There is no ABA problem, because no operation takes a single node.
///
/// | word             | push_or_claim()          | take_all() | try_abandon() | try_claim() |
/// |------------------|--------------------------|------------|---------------|-------------|
/// | no_owner (first) | empty, claimed           | -          | -             | empty       |
/// | empty            | the node                 | -          | no_owner      | false       |
/// | top of the stack | the node, above the rest | empty      | false         | false       |
template <typename Node>
class remote_free_list {
 public:
  constexpr remote_free_list() noexcept = default;
  /// Gives `node` to the owner and returns false. If there is no owner, makes the caller the owner
  /// and returns true; the node then still belongs to the caller. Any thread.
  [[nodiscard]] bool push_or_claim(Node* node) {
    // relaxed: the value is only compared and stored in the node; the exchange below verifies it.
    word top = head_.load(std::memory_order_relaxed);
    for (;;) {
      if (top == no_owner) {
        if (try_claim()) return true;
        top = head_.load(std::memory_order_relaxed);
        continue;
      }
      node->next = to_node(top);
      // release: pairs with the acquire in take_all(), so the owner sees the node's link and all
      // writes of its last user. relaxed on failure: the value is only
      // stored in the node and compared; the next exchange verifies it.
      if (head_.compare_exchange_weak(top, to_word(node), std::memory_order_release,
                                      std::memory_order_relaxed)) {
        return false;
      }
    }
  }
  /// Takes all nodes, newest first, linked by `next`; returns null if there are none. Owner only.
  [[nodiscard]] Node* take_all() {
    // relaxed: a check that avoids a needless exchange; a missed node is found in the next call.
    if (head_.load(std::memory_order_relaxed) == empty) return nullptr;
    // acquire: pairs with the release of every push_or_claim() whose node is taken (a chain of
    // read-modify-writes is one release sequence).
    return to_node(head_.exchange(empty, std::memory_order_acquire));
  }
  /// Gives up ownership and returns true; if there are nodes, which must be taken first, keeps it
  /// and returns false. Owner only.
  [[nodiscard]] bool try_abandon() {
    word expected = empty;
    // release: pairs with the acquire in try_claim(), so the next owner sees all writes of this
    // one. relaxed on failure: the caller calls take_all(), which acquires.
    return head_.compare_exchange_strong(expected, no_owner, std::memory_order_release,
                                         std::memory_order_relaxed);
  }
  /// Makes the caller the owner if there is none. Returns whether it did. Any thread.
  [[nodiscard]] bool try_claim() {
    word expected = no_owner;
    // acquire: pairs with the release in try_abandon(). relaxed on failure: the caller reads
    // nothing.
    return head_.compare_exchange_strong(expected, empty, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  /// Returns whether there is no owner at the moment. A hint. Any thread.
  [[nodiscard]] bool is_orphaned() const {
    return head_.load(std::memory_order_relaxed) == no_owner;  // relaxed: the result is a hint
  }

 private:
  using word = std::uintptr_t;
  static constexpr word empty = 0;
  static constexpr word no_owner = 1;  // no node has this address

  static word to_word(Node* node) noexcept { return reinterpret_cast<word>(node); }
  static Node* to_node(word address) noexcept { return reinterpret_cast<Node*>(address); }

  atomic<word> head_{no_owner};
};

}  // namespace gyre::detail
