// SPDX-License-Identifier: Apache-2.0
// The ring of loops around which a token travels, and each loop's counters.
#pragma once

#include <lab/harness/affinity.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/histogram.hpp>
#include <lab/harness/timing.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

namespace lab::hop {

/// The travelling token. A contender derives from it to add the members that its kind of post
/// needs.
class token {
 public:
  /// To be called on the thread of the loop to which the token was sent.
  void arrive() { arrived_(*this); }

 private:
  template <class>
  friend class ring;

  void (*arrived_)(token&) = nullptr;
  void* ring_ = nullptr;
  std::uint64_t left_ = 0;  // hops still to make, including the current one
  std::size_t at_ = 0;      // index of the loop that has the token, or is about to receive it
  clock::time_point sent_;
};

/// The interface of a contender: a loop that the thread of the workload constructs and destroys.
template <class Loop>
concept contender_loop =
    std::default_initializable<Loop> && std::derived_from<typename Loop::token, token> &&
    requires(Loop& loop, typename Loop::token& passed) {
      loop.run();         // until stop()
      loop.stop();        // any thread
      loop.send(passed);  // any thread; passed.arrive() then runs on the thread of run()
      {
        loop.wakeups()
      } -> std::same_as<std::optional<std::uint64_t>>;  // any thread; empty if unknown
    };

/// Loops in threads of their own. Thread-safety: only the thread that made the ring.
template <class Loop>
class ring {
 public:
  /// Pins the loops to `cpus` round-robin, if any: the duration of a hop depends on where the
  /// scheduler puts two loops that wait for each other, and that varies from run to run.
  ring(std::size_t loops, const std::vector<unsigned>& cpus, stopwatch& watch)
      : watch_(watch), stations_(loops) {
    for (auto* each : {&token_, &duplicate_}) {
      each->arrived_ = [](token& arrived) {
        static_cast<ring*>(arrived.ring_)->receive(static_cast<typename Loop::token&>(arrived));
      };
      each->ring_ = this;
    }
    for (std::size_t i = 0; i < loops; ++i) {
      std::vector<unsigned> own;
      if (!cpus.empty()) own.push_back(cpus[i % cpus.size()]);
      stations_[i].thread = std::jthread([&at = stations_[i], own] {
        pin_thread(own);
        here = &at;
        at.loop.run();
      });
    }
  }

  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;
  ~ring() { stop(); }

  /// Ends all loops and joins their threads.
  void stop() {
    for (station& each : stations_) each.loop.stop();
    for (station& each : stations_) {
      if (each.thread.joinable()) each.thread.join();
    }
  }

  /// Sends the token for `hops` hops, the first from this thread, and injects `sabotage` halfway.
  /// Only while no token is under way.
  void start(std::uint64_t hops, fault sabotage) {
    for (station& each : stations_) each.reset();
    sabotage_ = sabotage;
    fault_at_ = sabotage == fault::none ? 0 : std::max<std::uint64_t>(hops / 2, 1);
    watch_.start();
    token_.left_ = hops;
    send(token_, 0, clock::now());
  }

  /// Waits for the last hop; false when the token no longer moves.
  bool wait() {
    return completed_.wait([this] { return hops(); }, std::chrono::seconds(3));
  }

  /// Hops made since start(). Exact after stop().
  std::uint64_t hops() const {
    std::uint64_t sum = 0;
    // relaxed: see receive().
    for (const station& each : stations_) sum += each.arrivals.load(std::memory_order_relaxed);
    return sum;
  }

  /// Hops that arrived on a thread other than that of their destination. After stop().
  std::uint64_t wrong_thread() const {
    std::uint64_t sum = 0;
    for (const station& each : stations_) sum += each.wrong_thread;
    return sum;
  }

  /// Loops that did not receive their share of `hops` hops in ring order. After stop().
  std::uint64_t skipped(std::uint64_t hops) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < stations_.size(); ++i) {
      const std::uint64_t share = hops / stations_.size() + (i < hops % stations_.size());
      sum += stations_[i].arrivals.load(std::memory_order_relaxed) != share;  // relaxed: joined.
    }
    return sum;
  }

  /// The durations of the hops, in nanoseconds. After stop().
  histogram latency() const {
    histogram all;
    for (const station& each : stations_) all.merge(each.latency);
    return all;
  }

  /// System calls made to wake a loop since the ring was made; empty when the loops cannot tell.
  std::optional<std::uint64_t> wakeups() const {
    std::optional<std::uint64_t> sum = 0;
    for (const station& each : stations_) {
      const std::optional<std::uint64_t> known = each.loop.wakeups();
      sum = sum && known ? std::optional(*sum + *known) : std::nullopt;
    }
    return sum;
  }

 private:
  // One loop and its counters, which only its thread writes. Aligned to two cache lines, because
  // CPUs fetch lines in pairs.
  struct alignas(128) station {
    Loop loop;
    std::atomic<std::uint64_t> arrivals = 0;
    std::uint64_t wrong_thread = 0;
    histogram latency;
    std::jthread thread;

    void reset() {
      arrivals.store(0, std::memory_order_relaxed);  // relaxed: no token is under way.
      wrong_thread = 0;
      latency = {};
    }
  };

  void receive(Loop::token& arrived) {
    const auto now = clock::now();
    station& at = stations_[arrived.at_];
    at.latency.record(
        static_cast<std::uint64_t>((now - arrived.sent_) / std::chrono::nanoseconds(1)));
    at.wrong_thread += here != &at;
    // relaxed: only this thread writes; other threads read it as a sign of progress.
    at.arrivals.store(at.arrivals.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);

    if (&arrived == &duplicate_) return;
    if (arrived.left_ == fault_at_) [[unlikely]] {
      if (sabotage_ == fault::lose) return;
      send(duplicate_, arrived.at_, now);
    }
    if (--arrived.left_ == 0) {
      watch_.stop();
      completed_.set();
    } else {
      send(arrived, arrived.at_ + 1 < stations_.size() ? arrived.at_ + 1 : 0, now);
    }
  }

  void send(Loop::token& passed, std::size_t to, clock::time_point now) {
    passed.at_ = to;
    passed.sent_ = now;
    stations_[to].loop.send(passed);
  }

  static inline thread_local const station* here = nullptr;

  stopwatch& watch_;
  completion_event completed_;
  typename Loop::token token_;
  typename Loop::token duplicate_;  // sent once by a run with fault::duplicate
  fault sabotage_ = fault::none;
  std::uint64_t fault_at_ = 0;  // hops left when the fault happens; 0: never
  std::deque<station> stations_;
};

}  // namespace lab::hop
