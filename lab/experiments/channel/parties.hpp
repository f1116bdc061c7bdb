// SPDX-License-Identifier: Apache-2.0
// Producers and consumers, and the checks that consumers make. Each producer sends its numbers and
// then an end; each consumer stops at the first end that it gets. The last message of all is an
// end, so every number has been received when all consumers have stopped.
#pragma once

#include <lab/harness/contender.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lab::channel {

struct message {
  std::uint32_t producer;
  std::uint32_t number;  // from 0; `end` after the last
};

inline constexpr std::uint32_t end = std::numeric_limits<std::uint32_t>::max();

/// Used by one coroutine or thread. Aligned to two cache lines, as CPUs fetch lines in pairs.
class alignas(128) producer {
 public:
  producer(std::uint32_t self, std::uint32_t numbers, fault sabotage)
      : self_(self), numbers_(numbers), sabotage_(sabotage) {}

  /// Stores the next message to send; false when there is none.
  bool next(message& to_send) {
    if (next_ == numbers_ / 2 && sabotage_ != fault::none) [[unlikely]]
      misbehave();
    if (next_ == end) return false;
    to_send = {self_, next_ < numbers_ ? next_ : end};
    next_ = next_ < numbers_ ? next_ + 1 : end;
    return true;
  }

 private:
  void misbehave() {
    sabotage_ == fault::lose ? ++next_ : --next_;
    sabotage_ = fault::none;
  }

  const std::uint32_t self_;
  const std::uint32_t numbers_;
  fault sabotage_;
  std::uint32_t next_ = 0;
};

/// Used by one coroutine or thread.
class alignas(128) consumer {
 public:
  explicit consumer(std::size_t producers) : expected_(producers, 0) {}

  /// Takes a message; false when it is an end.
  bool take(message received) {
    if (received.number == end) return false;
    ++received_;
    sum_ += received.number;
    out_of_order_ += received.number < expected_[received.producer];
    expected_[received.producer] = received.number + 1;
    return true;
  }

  std::uint64_t received() const { return received_; }
  std::uint64_t sum() const { return sum_; }
  std::uint64_t out_of_order() const { return out_of_order_; }

 private:
  std::vector<std::uint32_t> expected_;  // at least, from each producer
  std::uint64_t received_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t out_of_order_ = 0;
};

/// The producers and consumers of a round. Sabotage affects the first producer.
struct parties {
  parties(std::uint32_t pairs, std::uint64_t numbers_of_each, fault sabotage)
      : numbers(numbers_of_each) {
    for (std::uint32_t i = 0; i < pairs; ++i) {
      producers.emplace_back(i, static_cast<std::uint32_t>(numbers),
                             i == 0 ? sabotage : fault::none);
      consumers.emplace_back(pairs);
    }
  }

  std::uint64_t received() const { return total(&consumer::received); }
  std::uint64_t sum() const { return total(&consumer::sum); }
  std::uint64_t out_of_order() const { return total(&consumer::out_of_order); }
  std::uint64_t expected_sum() const { return producers.size() * (numbers * (numbers - 1) / 2); }

  std::uint64_t numbers;
  std::vector<producer> producers;
  std::vector<consumer> consumers;

 private:
  std::uint64_t total(std::uint64_t (consumer::*of)() const) const {
    std::uint64_t all = 0;
    for (const consumer& each : consumers) all += (each.*of)();
    return all;
  }
};

}  // namespace lab::channel
