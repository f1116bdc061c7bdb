// SPDX-License-Identifier: Apache-2.0
// The ring of loops around which a token goes, and what each loop saw of it.
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

/// What goes around. A contender adds what its own kind of post needs, by deriving from it.
class token {
 public:
  /// To be called on the thread of the loop the token was sent to.
  void arrive() { arrived_(*this); }

 private:
  template <class>
  friend class ring;

  void (*arrived_)(token&) = nullptr;
  void* ring_ = nullptr;
  std::uint64_t left_ = 0;  // hops still to make, the one under way included
  std::size_t at_ = 0;      // the loop it is at, or on its way to
  clock::time_point sent_;
};

/// What a contender's loop must offer. It is made and destroyed by the thread that runs the
/// workload.
template <class Loop>
concept contender_loop =
    std::default_initializable<Loop> && std::derived_from<typename Loop::token, token> &&
    requires(Loop& loop, typename Loop::token& passed) {
      loop.run();         // until stop()
      loop.stop();        // any thread
      loop.send(passed);  // any thread; passed.arrive() then runs on the thread of run()
      { loop.wakeups() } -> std::same_as<std::optional<std::uint64_t>>;  // any thread; if it knows
    };

/// Loops in threads of their own. All functions are for the thread that made the ring.
template <class Loop>
class ring {
 public:
  /// With `cpus`, the loops are dealt out to them in turn: where the scheduler puts two loops that
  /// wait for each other decides how long a hop takes, and it changes its mind from run to run.
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

  /// Sends the token on its way for `hops` hops, the first from this thread. Halfway it meets with
  /// `sabotage`. Only while no token is under way.
  void start(std::uint64_t hops, mishap sabotage) {
    for (station& each : stations_) each.reset();
    sabotage_ = sabotage;
    mishap_at_ = sabotage == mishap::none ? 0 : std::max<std::uint64_t>(hops / 2, 1);
    watch_.start();
    token_.left_ = hops;
    send(token_, 0, clock::now());
  }

  /// Waits for the last hop; false when the token no longer moves.
  bool wait() {
    return line_.wait([this] { return hops(); }, std::chrono::seconds(3));
  }

  /// Hops made since start(). Exact after stop().
  std::uint64_t hops() const {
    std::uint64_t sum = 0;
    // relaxed: see receive().
    for (const station& each : stations_) sum += each.arrivals.load(std::memory_order_relaxed);
    return sum;
  }

  /// Hops that ended on another thread than that of the loop they went to. After stop().
  std::uint64_t astray() const {
    std::uint64_t sum = 0;
    for (const station& each : stations_) sum += each.astray;
    return sum;
  }

  /// Loops that did not see their share of `hops` hops in ring order. After stop().
  std::uint64_t skipped(std::uint64_t hops) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < stations_.size(); ++i) {
      const std::uint64_t share = hops / stations_.size() + (i < hops % stations_.size());
      sum += stations_[i].arrivals.load(std::memory_order_relaxed) != share;  // relaxed: joined.
    }
    return sum;
  }

  /// How long the hops took, in nanoseconds. After stop().
  histogram latency() const {
    histogram all;
    for (const station& each : stations_) all.merge(each.latency);
    return all;
  }

  /// System calls made to wake a loop since the ring was made; nothing when the loops cannot tell.
  std::optional<std::uint64_t> wakeups() const {
    std::optional<std::uint64_t> sum = 0;
    for (const station& each : stations_) {
      const std::optional<std::uint64_t> known = each.loop.wakeups();
      sum = sum && known ? std::optional(*sum + *known) : std::nullopt;
    }
    return sum;
  }

 private:
  // One loop; its thread alone writes what it saw. Two cache lines apart from the next, because
  // CPUs fetch lines in pairs.
  struct alignas(128) station {
    Loop loop;
    std::atomic<std::uint64_t> arrivals = 0;
    std::uint64_t astray = 0;
    histogram latency;
    std::jthread thread;

    void reset() {
      arrivals.store(0, std::memory_order_relaxed);  // relaxed: no token is under way.
      astray = 0;
      latency = {};
    }
  };

  void receive(Loop::token& arrived) {
    const auto now = clock::now();
    station& at = stations_[arrived.at_];
    at.latency.record(
        static_cast<std::uint64_t>((now - arrived.sent_) / std::chrono::nanoseconds(1)));
    at.astray += here != &at;
    // relaxed: written by this thread only, and read by others for a sign of progress.
    at.arrivals.store(at.arrivals.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);

    if (&arrived == &duplicate_) return;
    if (arrived.left_ == mishap_at_) [[unlikely]] {
      if (sabotage_ == mishap::lose) return;
      send(duplicate_, arrived.at_, now);
    }
    if (--arrived.left_ == 0) {
      watch_.stop();
      line_.cross();
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
  finish_line line_;
  typename Loop::token token_;
  typename Loop::token duplicate_;  // sent once when a run is to be sabotaged that way
  mishap sabotage_ = mishap::none;
  std::uint64_t mishap_at_ = 0;  // hops left when it happens; 0: never
  std::deque<station> stations_;
};

}  // namespace lab::hop
