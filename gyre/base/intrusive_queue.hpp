// SPDX-License-Identifier: Apache-2.0
// intrusive_queue: a singly linked FIFO whose links live in the elements; it never allocates.
#pragma once

#include <cassert>
#include <type_traits>
#include <utility>

namespace gyre {

/// The link of an element of an intrusive_queue or an atomic_intrusive_stack; a node is in at most
/// one queue or stack. A copy of an element is in none.
struct intrusive_node {
  constexpr intrusive_node() noexcept = default;
  constexpr intrusive_node(const intrusive_node&) noexcept {}
  constexpr intrusive_node& operator=(const intrusive_node&) noexcept { return *this; }

  intrusive_node* next = nullptr;  ///< used by the queue or stack that has the node
};

/// A FIFO of T, which derives from Node: intrusive_node, or a type derived from it for each queue
/// that an element is in at once, as with intrusive_list.
///
/// Thread-safety: none.
/// Lifetime: the queue owns nothing; elements must outlive their stay in it. Empty a queue before
/// it is destroyed or assigned to: elements left in it keep their links.
/// Complexity: O(1); no member allocates or throws.
template <typename T, typename Node = intrusive_node>
class intrusive_queue {
 public:
  constexpr intrusive_queue() noexcept = default;
  constexpr intrusive_queue(intrusive_queue&& other) noexcept { splice_back(other); }
  constexpr intrusive_queue& operator=(intrusive_queue&& other) noexcept {
    if (this != &other) {
      first_ = last_ = nullptr;
      splice_back(other);
    }
    return *this;
  }

  [[nodiscard]] constexpr bool empty() const noexcept { return first_ == nullptr; }
  /// Returns the first element; nullptr when the queue is empty.
  [[nodiscard]] constexpr T* front() const noexcept {
    return first_ == nullptr ? nullptr : element(first_);
  }

  constexpr void push_back(T& value) noexcept {
    intrusive_node* node = to_node(value);
    assert(node->next == nullptr && node != last_ && "already in a queue");
    (first_ == nullptr ? first_ : last_->next) = node;
    last_ = node;
  }

  constexpr void push_front(T& value) noexcept {
    intrusive_node* node = to_node(value);
    assert(node->next == nullptr && node != last_ && "already in a queue");
    node->next = first_;
    if (first_ == nullptr) last_ = node;
    first_ = node;
  }
  /// Takes out the first element and returns it; nullptr when the queue is empty.
  constexpr T* pop_front() noexcept {
    if (first_ == nullptr) return nullptr;
    intrusive_node* node = first_;
    first_ = std::exchange(node->next, nullptr);
    if (first_ == nullptr) last_ = nullptr;
    return element(node);
  }
  /// Appends all elements of `other`, which is left empty.
  constexpr void splice_back(intrusive_queue& other) noexcept {
    if (this == &other || other.empty()) return;
    (first_ == nullptr ? first_ : last_->next) = std::exchange(other.first_, nullptr);
    last_ = std::exchange(other.last_, nullptr);
  }

 private:
  static constexpr intrusive_node* to_node(T& value) noexcept {
    static_assert(std::is_base_of_v<intrusive_node, Node> && std::is_base_of_v<Node, T>);
    return static_cast<Node*>(&value);
  }
  static constexpr T* element(intrusive_node* node) noexcept {
    return static_cast<T*>(static_cast<Node*>(node));
  }

  intrusive_node* first_ = nullptr;
  intrusive_node* last_ = nullptr;
};

}  // namespace gyre
