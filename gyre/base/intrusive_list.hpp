// SPDX-License-Identifier: Apache-2.0
// intrusive_list: a doubly linked list whose links live in the elements; it never allocates, and an
// element can be removed without its list.
#pragma once

#include <cassert>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace gyre {

/// The links of an element. An element in a list must not be destroyed; asserted in debug builds.
/// A copy of an element is in no list, and assignment to an element leaves it where it is.
class intrusive_list_node {
 public:
  constexpr intrusive_list_node() noexcept = default;
  constexpr intrusive_list_node(const intrusive_list_node&) noexcept {}
  constexpr intrusive_list_node& operator=(const intrusive_list_node&) noexcept { return *this; }
  constexpr ~intrusive_list_node() { assert(!is_linked() && "destroyed while in a list"); }
  /// Returns whether the element is in a list.
  [[nodiscard]] constexpr bool is_linked() const noexcept { return next_ != nullptr; }
  /// Takes the element out of its list, if any. Call it only on a thread that may change the list.
  constexpr void unlink() noexcept {
    if (!is_linked()) return;
    assert(next_->previous_ == this && previous_->next_ == this && "list is corrupt");
    next_->previous_ = previous_;
    previous_->next_ = next_;
    next_ = previous_ = nullptr;
  }

 private:
  template <typename T, typename Node>
  friend class intrusive_list;

  constexpr void link_before(intrusive_list_node& position) noexcept {
    assert(!is_linked() && "already in a list");
    previous_ = position.previous_;
    next_ = &position;
    previous_->next_ = this;
    position.previous_ = this;
  }

  intrusive_list_node* previous_ = nullptr;
  intrusive_list_node* next_ = nullptr;
};

/// A list of T, which derives from Node. An element that is in several lists at once derives from
/// one Node type for each, such as `struct by_age : intrusive_list_node {};`.
///
/// Thread-safety: none.
/// Lifetime: the list owns nothing; elements must outlive their stay in it.
/// Complexity: O(1), but O(n) for clear(), assignment and destruction; nothing allocates or throws.
template <typename T, typename Node = intrusive_list_node>
class intrusive_list {
 public:
  class iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = T*;
    using reference = T&;

    constexpr iterator() noexcept = default;
    constexpr T& operator*() const noexcept { return element(*node_); }
    constexpr T* operator->() const noexcept { return &element(*node_); }
    constexpr iterator& operator++() noexcept {
      node_ = node_->next_;
      return *this;
    }
    constexpr iterator operator++(int) noexcept {
      return iterator{std::exchange(node_, node_->next_)};
    }
    constexpr iterator& operator--() noexcept {
      node_ = node_->previous_;
      return *this;
    }
    constexpr iterator operator--(int) noexcept {
      return iterator{std::exchange(node_, node_->previous_)};
    }
    constexpr bool operator==(const iterator&) const noexcept = default;

   private:
    friend intrusive_list;
    constexpr explicit iterator(intrusive_list_node* node) noexcept : node_{node} {}
    intrusive_list_node* node_ = nullptr;
  };

  constexpr intrusive_list() noexcept { make_empty(); }
  constexpr intrusive_list(intrusive_list&& other) noexcept {
    make_empty();
    splice_back(other);
  }
  constexpr intrusive_list& operator=(intrusive_list&& other) noexcept {
    if (this != &other) {
      clear();
      splice_back(other);
    }
    return *this;
  }
  constexpr ~intrusive_list() {
    clear();
    head_.next_ = head_.previous_ = nullptr;
  }

  [[nodiscard]] constexpr bool empty() const noexcept { return head_.next_ == &head_; }

  [[nodiscard]] constexpr T& front() noexcept {
    assert(!empty());
    return element(*head_.next_);
  }
  [[nodiscard]] constexpr T& back() noexcept {
    assert(!empty());
    return element(*head_.previous_);
  }

  constexpr void push_front(T& value) noexcept { node(value).link_before(*head_.next_); }
  constexpr void push_back(T& value) noexcept { node(value).link_before(head_); }
  /// Inserts `value` before `position`, which is in this list or its end.
  constexpr iterator insert(iterator position, T& value) noexcept {
    node(value).link_before(*position.node_);
    return iterator{&node(value)};
  }
  /// Takes out the first element and returns it; nullptr when the list is empty.
  constexpr T* pop_front() noexcept { return empty() ? nullptr : &unlinked(*head_.next_); }
  /// Takes out the last element and returns it; nullptr when the list is empty.
  constexpr T* pop_back() noexcept { return empty() ? nullptr : &unlinked(*head_.previous_); }
  /// Takes out the element at `position` and returns the position after it.
  constexpr iterator erase(iterator position) noexcept {
    iterator next_position{position.node_->next_};
    position.node_->unlink();
    return next_position;
  }
  /// Appends all elements of `other`, which is left empty.
  constexpr void splice_back(intrusive_list& other) noexcept {
    if (this == &other || other.empty()) return;
    intrusive_list_node* first = other.head_.next_;
    intrusive_list_node* last = other.head_.previous_;
    other.make_empty();
    first->previous_ = head_.previous_;
    head_.previous_->next_ = first;
    last->next_ = &head_;
    head_.previous_ = last;
  }
  constexpr void clear() noexcept {
    while (pop_front() != nullptr) {
    }
  }

  constexpr iterator begin() noexcept { return iterator{head_.next_}; }
  constexpr iterator end() noexcept { return iterator{&head_}; }

 private:
  static constexpr intrusive_list_node& node(T& value) noexcept {
    static_assert(std::is_base_of_v<intrusive_list_node, Node> && std::is_base_of_v<Node, T>);
    return static_cast<Node&>(value);
  }
  static constexpr T& element(intrusive_list_node& node) noexcept {
    return static_cast<T&>(static_cast<Node&>(node));
  }
  static constexpr T& unlinked(intrusive_list_node& node) noexcept {
    node.unlink();
    return element(node);
  }
  constexpr void make_empty() noexcept { head_.next_ = head_.previous_ = &head_; }

  intrusive_list_node head_;  // the sentinel before the first and after the last element
};

}  // namespace gyre
