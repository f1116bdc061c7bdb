// SPDX-License-Identifier: Apache-2.0
// A caller of the data experiments: asks an engine for an item, checks the reply, and asks again.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/engines/item_set.hpp>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace lab::engines {

/// One caller, which has one call in flight. Each call of a caller is for another item, and so are
/// those of callers beside it: a reply that reaches the wrong caller is noticed.
///
///     const std::uint32_t item = caller.ask();
///     … // calls the engine
///     if (caller.take(value)) … // asks again
///
/// Thread-safety: one thread at a time calls; the counts can be read by any.
class alignas(64) caller {
 public:
  /// Makes the caller ready. `stop`: once it is set, the caller asks no more.
  void prepare(const item_set& items, const std::atomic<bool>& stop, std::uint32_t index,
               fault sabotage) {
    items_ = &items;
    stop_ = &stop;
    item_ = index * start_stride % items.count();
    sabotage_ = sabotage;
  }

  /// Begins a call. Returns the item to ask for.
  std::uint32_t ask() noexcept {
    add(asked_, 1);
    return item_;
  }

  /// Ends a call with the value that the engine has replied. Returns whether the caller asks again.
  bool take(std::string_view value) noexcept { return end(items_->is_value(item_, value)); }
  /// Ends a call whose reply names the item, such as a row.
  bool take(std::uint32_t item, std::string_view value) noexcept {
    return end(item == item_ && items_->is_value(item_, value));
  }
  /// Ends a call whose reply is no value.
  bool take_failure() noexcept { return end(false); }

  std::uint64_t asked() const noexcept { return asked_.load(std::memory_order_relaxed); }
  std::uint64_t answered() const noexcept { return answered_.load(std::memory_order_relaxed); }
  std::uint64_t wrong() const noexcept { return wrong_.load(std::memory_order_relaxed); }

 private:
  using count = std::atomic<std::uint64_t>;

  // Both have no divisor in common with the 1000 items of the experiments.
  static constexpr std::uint32_t start_stride = 13;
  static constexpr std::uint32_t stride = 7;
  // The answer that is lost, or repeated, on purpose: a caller on a busy machine may get few.
  static constexpr std::uint64_t sabotaged = 1;

  // One thread writes, so that no locked instruction is needed.
  static void add(count& number, std::uint64_t more) noexcept {
    number.store(number.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  bool end(bool is_right) noexcept {
    if (!is_right) add(wrong_, 1);
    item_ = (item_ + stride) % items_->count();
    std::uint64_t answers = 1;
    if (sabotage_ != fault::none && asked() == sabotaged) {
      answers = sabotage_ == fault::lose ? 0 : 2;
    }
    add(answered_, answers);
    return !stop_->load(std::memory_order_relaxed);
  }

  const item_set* items_ = nullptr;
  const std::atomic<bool>* stop_ = nullptr;
  std::uint32_t item_ = 0;
  fault sabotage_ = fault::none;
  count asked_{0};
  count answered_{0};
  count wrong_{0};
};

}  // namespace lab::engines
