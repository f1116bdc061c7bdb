// SPDX-License-Identifier: Apache-2.0
//
// The C++20 memory model as an abstract machine: the stores that a load may return, the
// happens-before order, and data races of plain accesses.
//
// Each atomic keeps all its stores in modification order (the order in which the schedule performs
// them). A load may return any store that coherence and happens-before do not hide from it, so a
// reordered load and a store that lingers in a store buffer are both modelled as a stale read.
// Sources: Norris and Demsky, "CDSChecker", 2013 (histories and vector clocks); Kang et al.,
// "A promising semantics for relaxed-memory concurrency", 2017 (fences as floors); Flanagan and
// Freund, "FastTrack", 2009 (races); Goldblatt, P1202 (asymmetric fences).
//
// Not modelled: stores performed later than the program's order lets them appear in modification
// order (2+2W), and loads that return a store that was not performed yet (load buffering).
#pragma once

#include <tests/model/fiber.hpp>
#include <tests/model/model.hpp>
#include <tests/model/table.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gyre::model {

struct vector_clock {
  std::array<std::uint32_t, max_threads> ticks{};

  void join(const vector_clock& other) {
    for (std::size_t i = 0; i < max_threads; ++i) {
      if (ticks[i] < other.ticks[i]) ticks[i] = other.ticks[i];
    }
  }
};

/// The knowledge of one thread.
struct observer {
  unsigned id = 0;
  vector_clock now;             // what happened before this thread's next operation
  vector_clock to_acquire;      // added by an acquire fence: releases read by relaxed loads
  vector_clock released;        // published by a release fence with later relaxed stores
  fingerprint history = 0;      // of all operations that happened before; equal only when they are
  std::vector<unsigned> stale;  // atomics with a stale read since the last yield

  std::uint32_t tick() const { return now.ticks[id]; }
  bool knows(unsigned thread, std::uint32_t tick) const { return tick <= now.ticks[thread]; }
};

class memory {
 public:
  void reset();

  /// The atomic at `address`, made from the bytes there if it was not constructed in this schedule.
  unsigned locate(std::uintptr_t address, std::size_t size);

  /// A new atomic at `address`; the lifetime of any earlier object there must have ended.
  void construct(observer& by, std::uintptr_t address, std::size_t size, word value);
  void destroy(observer& by, std::uintptr_t address);

  struct range {
    unsigned oldest;
    unsigned latest;
  };
  /// The stores that `by` may read, as indices into the modification order.
  range readable(observer& by, unsigned atomic, std::memory_order order) const;
  word value(unsigned atomic, unsigned store) const { return atomics_[atomic].stores[store].value; }

  void load(observer& by, unsigned atomic, unsigned store, std::memory_order order);
  void store(observer& by, unsigned atomic, word value, std::memory_order order);
  void update(observer& by, unsigned atomic, word value, std::memory_order order);
  void fence(observer& by, std::memory_order order);
  void light_fence(observer& by);
  void heavy_fence(observer& by);

  /// Makes the newest values visible to `by` of all atomics in `stale`: no store stays invisible
  /// for ever.
  void catch_up(observer& by);

  /// A plain access. Reports a race with any access that is not ordered with this one.
  void access(observer& by, std::uintptr_t address, std::size_t size, bool writes, const void* pc);
  /// The end of a block's lifetime, which races with every access that is not ordered before it.
  void release(observer& by, std::uintptr_t address, std::size_t size, const void* pc);

  /// For reports: a number for the atomic, small and in order of first use.
  std::size_t atomics() const { return used_; }

 private:
  struct store_event {
    word value;
    vector_clock published;  // acquired by a load that reads this store
    fingerprint hash;
  };
  struct sighting {
    std::uint32_t tick;
    unsigned store;
  };
  struct location {
    std::uintptr_t address;
    std::size_t size;
    bool live;
    bool reload;  // was written plainly (a std::atomic's constructor): take the value from there
    unsigned creator;
    std::uint32_t created;
    std::vector<store_event> stores;
    std::array<std::vector<sighting>, max_threads>
        seen;  // the newest store that each thread saw, by tick
    std::array<std::uint32_t, max_threads> accessed;
    // The oldest store that a sequentially consistent load or fence, the light fences or the heavy
    // fences may still overlook.
    unsigned sequential_floor, light_floor, heavy_floor;
  };
  struct record {
    std::uint32_t tick;
    std::uint8_t thread;
    std::uint8_t bytes;  // a bit for each of the cell's eight bytes
    bool writes;
    const void* pc;
  };
  struct cell {  // eight aligned bytes
    std::uintptr_t address = 0;
    std::vector<record> records;
  };

  location& create(unsigned at, std::uintptr_t address, std::size_t size, word value);
  void check_ended(const observer& by, const location& ending) const;
  void enter(observer& by, location& entered) const;
  unsigned known(const observer& by, const location& of) const;
  static void see(const observer& by, location& where, unsigned store);
  void acquire(observer& by, const vector_clock& published, std::memory_order order) const;
  static void check_race(const observer& by, const cell& touched, std::uint8_t bytes, bool writes,
                         std::size_t size, const void* pc);
  void publish_sequential(observer& by, location& to);

  std::vector<location> atomics_;
  std::size_t used_ = 0;  // atomics of this schedule; the rest keep their capacity
  table by_address_;
  std::vector<cell> cells_;
  std::size_t cells_used_ = 0;
  table by_granule_;
  // The order of fences among each other, for the threads' fingerprints.
  fingerprint sequential_ = 0, heavy_ = 0, sequential_stores_ = 0, light_fences_ = 0;
};

}  // namespace gyre::model
