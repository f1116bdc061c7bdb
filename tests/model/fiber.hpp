// SPDX-License-Identifier: Apache-2.0
//
// The execution context of a model thread: a stack, thread-local storage and a private arena of the
// heap. All of it is reused from one schedule to the next, and nothing has to be unwound: an
// abandoned schedule is simply dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

namespace gyre::model {

inline constexpr std::size_t max_threads = 8;

/// A stack and a thread pointer on which to run a function. x86-64 Linux.
///
/// The thread pointer is borrowed from an idle operating-system thread, so that `thread_local`
/// variables have distinct addresses per model thread, as in a real program.
class fiber {
 public:
  fiber();
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  /// Makes the next switch to this fiber call `entry`, which never returns, on an empty stack and
  /// with freshly initialised thread-locals.
  void start(void (*entry)());

  /// Switches from the running fiber to `to`, until a switch back. A null pointer on either side is
  /// the thread that called check(), outside all fibers.
  static void switch_between(fiber* from, fiber* to);

  bool owns(std::uintptr_t address) const { return address - stack_ < stack_bytes; }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;
  struct context {
    void* stack_pointer = nullptr;
    std::uintptr_t thread_pointer = 0;
  };
  static context outside;

  std::uintptr_t stack_;
  context context_;
};

/// The heap of one model thread. No address is allocated twice within a schedule, so that stale
/// pointers stay stale; and equal calls give equal addresses in every schedule.
class arena {
 public:
  struct block {
    std::uintptr_t address;
    std::size_t size;
    bool live;
    std::size_t part_released = 0;
  };
  enum class state : std::uint8_t { never_allocated, live, freed };

  arena();
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  void* allocate(std::size_t size, std::size_t alignment);
  void release(block& freed);
  /// Releases a part of the block that contains `address`: for mappings, which can be unmapped in
  /// parts.
  void release_part(std::uintptr_t address, std::size_t size);
  void forget_all();

  /// The block that starts at `address`, or null.
  block* find(std::uintptr_t address);
  bool owns(std::uintptr_t address) const { return address - base_ < arena_bytes; }
  state state_of(std::uintptr_t address) const { return states_[(address - base_) / granule]; }
  const std::vector<block>& blocks() const { return blocks_; }

 private:
  static constexpr std::size_t arena_bytes = std::size_t{64} << 20;
  static constexpr std::size_t granule = 16;
  // The overwritten length of a new or freed block; enough to expose stale pointers.
  static constexpr std::size_t filled_bytes = 1024;
  void mark(std::uintptr_t address, std::size_t size, state as);

  std::uintptr_t base_;
  std::size_t used_ = 0;
  state* states_;  // one per granule
  std::vector<block> blocks_;
};

/// The writable variables of the program (not of its shared libraries), restored before every
/// schedule, so that statics of the code under test are as at the call of check().
class program_image {
 public:
  program_image();
  void restore() const;

 private:
  std::vector<std::byte> saved_;
};

}  // namespace gyre::model
