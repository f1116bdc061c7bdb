// SPDX-License-Identifier: Apache-2.0
// generator: std::generator of C++23, which GCC provides only since version 14.
//
//     gyre::generator<int> in_order(const node* tree) {
//       if (tree == nullptr) co_return;
//       co_yield gyre::elements_of(in_order(tree->left));
//       co_yield tree->value;
//       co_yield gyre::elements_of(in_order(tree->right));
//     }
//
//     for (int value : in_order(root)) use(value);
#pragma once

#include <gyre/task/detail/frame.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

namespace gyre {

/// The operand with which `co_yield elements_of(range)` yields each element of `range`. If `range`
/// is not a generator of the same type, `allocator` allocates the frame that walks it; the default
/// is the slab.
// This type stands for the slab.
template <std::ranges::range Range, class Allocator = std::allocator<std::byte>>
struct elements_of {
  [[no_unique_address]] Range range;
  [[no_unique_address]] Allocator allocator = Allocator();
};

template <class Range, class Allocator = std::allocator<std::byte>>
elements_of(Range&&, Allocator = Allocator()) -> elements_of<Range&&, Allocator>;

template <class Ref, class Value = void>
class generator;

namespace detail {

/// The type as which an Element is yielded: the element itself if it converts to `Yielded`, else a
/// copy.
template <class Element, class Yielded>
using yielded_from = std::conditional_t<std::convertible_to<Element, Yielded>, Yielded,
                                        std::remove_cvref_t<Yielded>>;

/// The promise of all generators that yield the same type. The common promise lets them nest. In
/// each step the outermost generator, the root, resumes the innermost one directly.
template <class Yielded>
class generator_promise : public slab_frame {
 public:
  using handle = std::coroutine_handle<generator_promise>;
  using pointer = std::add_pointer_t<Yielded>;

  generator_promise() noexcept = default;
  generator_promise& operator=(generator_promise&&) = delete;

  static constexpr std::suspend_always initial_suspend() noexcept { return {}; }
  static constexpr auto final_suspend() noexcept { return final_awaiter{}; }
  static constexpr void return_void() noexcept {}
  void unhandled_exception() noexcept { error_ = std::current_exception(); }
  // The body of a generator cannot co_await, because only the consumer resumes it.
  void await_transform() = delete;

  std::suspend_always yield_value(Yielded value) noexcept {
    root_->value_ = std::addressof(value);
    return {};
  }
  auto yield_value(const std::remove_reference_t<Yielded>& value)
    requires(std::is_rvalue_reference_v<Yielded> &&
             std::constructible_from<std::remove_cvref_t<Yielded>,
                                     const std::remove_reference_t<Yielded>&>)
  {
    return copy_awaiter{value};
  }
  template <class Ref, class Value, class Unused>
    requires std::same_as<typename generator<Ref, Value>::yielded, Yielded>
  auto yield_value(elements_of<generator<Ref, Value>&&, Unused> elements) noexcept {
    return nested_awaiter<generator<Ref, Value>>{std::move(elements.range)};
  }
  template <std::ranges::input_range Range, class Allocator>
    requires std::convertible_to<std::ranges::range_reference_t<Range>,
                                 yielded_from<std::ranges::range_reference_t<Range>, Yielded>>
  auto yield_value(elements_of<Range, Allocator> elements) {
    using nested = generator<Yielded, std::ranges::range_value_t<Range>>;
    return nested_awaiter<nested>{walk<nested>(std::allocator_arg, elements.allocator,
                                               std::ranges::begin(elements.range),
                                               std::ranges::end(elements.range))};
  }

  /// Runs the generator, which must be a root, to the next element, if any, or throws the exception
  /// that left it.
  void advance() {
    value_ = nullptr;
    for (;;) {
      innermost_.resume();
      if (value_ != nullptr) [[likely]]
        return;
      if (handle::from_promise(*this).done()) return rethrow_if_failed();
    }
  }
  pointer value() const noexcept { return value_; }

 private:
  struct final_awaiter {
    static constexpr bool await_ready() noexcept { return false; }
    template <std::derived_from<generator_promise> Promise>
    static void await_suspend(std::coroutine_handle<Promise> self) noexcept {
      generator_promise& promise = self.promise();
      if (promise.outer_ != nullptr)
        promise.root_->innermost_ = handle::from_promise(*promise.outer_);
    }
    static constexpr void await_resume() noexcept {}
  };

  struct copy_awaiter {
    std::remove_cvref_t<Yielded> copy;

    static constexpr bool await_ready() noexcept { return false; }
    template <std::derived_from<generator_promise> Promise>
    void await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
      static_cast<generator_promise&>(coroutine.promise()).root_->value_ = std::addressof(copy);
    }
    static constexpr void await_resume() noexcept {}
  };

  // Suspends the generator and returns to advance(), which continues with the nested generator.
  template <class Generator>
  struct nested_awaiter {
    Generator nested;

    bool await_ready() const noexcept { return !nested.coroutine_; }
    template <std::derived_from<generator_promise> Promise>
    void await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
      generator_promise& outer = coroutine.promise();
      generator_promise& inner = nested.coroutine_.promise();
      inner.outer_ = &outer;
      inner.root_ = outer.root_;
      inner.root_->innermost_ = nested.coroutine_;
    }
    void await_resume() const {
      if (nested.coroutine_) nested.coroutine_.promise().rethrow_if_failed();
    }
  };

  template <class Nested, class Iterator, class Sentinel>
  static Nested walk(std::allocator_arg_t, std::allocator<std::byte>, Iterator position,
                     Sentinel end) {
    return walk<Nested>(std::move(position), std::move(end));
  }
  template <class Nested, class Allocator, class Iterator, class Sentinel>
  static Nested walk(std::allocator_arg_t, Allocator, Iterator position, Sentinel end) {
    for (; position != end; ++position)
      co_yield static_cast<yielded_from<decltype(*position), Yielded>>(*position);
  }
  template <class Nested, class Iterator, class Sentinel>
  static Nested walk(Iterator position, Sentinel end) {
    for (; position != end; ++position)
      co_yield static_cast<yielded_from<decltype(*position), Yielded>>(*position);
  }

  void rethrow_if_failed() {
    if (error_) [[unlikely]]
      std::rethrow_exception(std::move(error_));
  }

  generator_promise* root_ = this;
  // The generator that yields this one's elements; null in the root.
  generator_promise* outer_ = nullptr;
  handle innermost_ = handle::from_promise(*this);  // used only in the root generator
  pointer value_ = nullptr;                         // used only in the root generator
  std::exception_ptr error_;
};

}  // namespace detail

/// A coroutine that yields a sequence of values on demand: a move-only std::ranges::input_range and
/// view with the interface of std::generator. It cannot co_await: see async_generator.
///
/// `Ref` is the iterator's reference type; an object type stands for `Ref&&`, unless `Value` names
/// the range's value type. A yielded lvalue is copied only if the iterator returns an rvalue.
/// begin(), called once, runs the coroutine to the first co_yield, operator++ to the next.
///
/// Thread-safety: one thread at a time.
/// Lifetime: an element lives until the next increment. Destroying the generator in the middle
/// destroys the coroutine's locals.
/// Errors: begin() and operator++ throw an exception that leaves the coroutine; the sequence then
/// ends.
/// Complexity: the frame comes from the slab, or from an allocator passed after std::allocator_arg.
/// Yielding elements_of() a generator of the same yielded type costs nothing extra per step, at any
/// depth.
template <class Ref, class Value>
class [[nodiscard]] generator : public std::ranges::view_interface<generator<Ref, Value>> {
  using value = std::conditional_t<std::is_void_v<Value>, std::remove_cvref_t<Ref>, Value>;
  using reference = std::conditional_t<std::is_void_v<Value>, Ref&&, Ref>;
  static_assert(std::is_object_v<value> && std::same_as<std::remove_cv_t<value>, value>);
  static_assert(std::is_reference_v<reference> || std::copy_constructible<reference>);

 public:
  /// The operand of co_yield: `Ref` or a reference to it.
  using yielded = std::conditional_t<std::is_reference_v<reference>, reference, const reference&>;

 private:
  using handle = typename detail::generator_promise<yielded>::handle;

 public:
  struct promise_type : detail::generator_promise<yielded> {
    generator get_return_object() noexcept { return generator(handle::from_promise(*this)); }
  };

  class iterator {
   public:
    using value_type = value;
    using difference_type = std::ptrdiff_t;

    iterator(iterator&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    iterator& operator=(iterator&& other) noexcept {
      coroutine_ = std::exchange(other.coroutine_, nullptr);
      return *this;
    }

    reference operator*() const noexcept(std::is_reference_v<reference> ||
                                         std::is_nothrow_copy_constructible_v<reference>) {
      return static_cast<reference>(*coroutine_.promise().value());
    }
    iterator& operator++() {
      coroutine_.promise().advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator& i, std::default_sentinel_t) noexcept {
      return i.coroutine_.done();
    }

   private:
    friend generator;
    explicit iterator(handle coroutine) noexcept : coroutine_(coroutine) {}

    handle coroutine_;
  };

  generator(generator&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  generator& operator=(generator other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~generator() {
    if (coroutine_) coroutine_.destroy();
  }

  iterator begin() {
    coroutine_.promise().advance();
    return iterator(coroutine_);
  }
  static std::default_sentinel_t end() noexcept { return std::default_sentinel; }

 private:
  friend detail::generator_promise<yielded>;

  explicit generator(handle coroutine) noexcept : coroutine_(coroutine) {}

  handle coroutine_;
};

}  // namespace gyre

template <class Ref, class Value>
inline constexpr bool std::ranges::enable_view<gyre::generator<Ref, Value>> = true;
