// SPDX-License-Identifier: Apache-2.0
//
// Stress tests of the slab with several threads; a mark in every block shows whether two owners
// ever had the block at the same time.
#include <gyre/base/slab.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace slab_stress_test {
namespace {

using gyre::read_slab_stats;
using gyre::slab_allocate;
using gyre::slab_deallocate;

struct block {
  std::uint64_t mark;
  std::uint64_t bytes;
};

std::uint64_t mark_of(const block* of) { return reinterpret_cast<std::uintptr_t>(of) * 0x9e3779b9; }

block* make(std::size_t bytes) {
  auto* made = static_cast<block*>(slab_allocate(bytes));
  made->mark = mark_of(made);
  made->bytes = bytes;
  return made;
}

bool destroy(block* made) {
  const bool intact = made->mark == mark_of(made);
  made->mark = 0;
  slab_deallocate(made, made->bytes);
  return intact;
}

// A slot in which one thread leaves a block for any other.
using mailbox = std::atomic<block*>;

TEST(SlabStress, ProducerAndConsumerStayWithinWhatIsInFlight) {
  constexpr std::size_t in_flight = 1024;
  constexpr int blocks = 1'000'000;
  gyre::slab_trim();
  const auto before = read_slab_stats();
  auto ring = std::make_unique<mailbox[]>(in_flight);
  std::thread consumer{[&] {
    for (std::size_t i = 0; i < blocks; ++i) {
      block* received = nullptr;
      while ((received = ring[i % in_flight].exchange(nullptr, std::memory_order_acquire)) ==
             nullptr) {
        std::this_thread::yield();
      }
      ASSERT_TRUE(destroy(received));
    }
  }};
  std::size_t most_held = 0;
  for (std::size_t i = 0; i < blocks; ++i) {
    block* sent = make(64);
    while (ring[i % in_flight].load(std::memory_order_relaxed) != nullptr) {
      std::this_thread::yield();
    }
    ring[i % in_flight].store(sent, std::memory_order_release);
    if (i % 10'000 == 0) {
      most_held = std::max(most_held, read_slab_stats().bytes_held - before.bytes_held);
    }
  }
  consumer.join();
  gyre::slab_trim();
  const auto after = read_slab_stats();
  EXPECT_EQ(after.remote_frees - before.remote_frees, static_cast<std::uint64_t>(blocks));
  EXPECT_EQ(after.blocks_in_use, before.blocks_in_use);
  EXPECT_EQ(after.bytes_held, before.bytes_held);
  // The bound covers blocks in use, as many freed remotely but not collected yet, and a partly
  // filled slab.
  EXPECT_LE(most_held, 6 * 64 * 1024U);
}

// Each thread swaps blocks of random size through shared mailboxes, so that most blocks are freed
// on a thread other than the allocating one, often after that thread has ended.
void exchange_blocks(std::vector<mailbox>& boxes, unsigned seed, int steps,
                     std::atomic<int>& damaged) {
  std::mt19937 random{seed};
  for (int step = 0; step < steps; ++step) {
    const std::size_t bytes = 16 + random() % 1200;
    mailbox& box = boxes[random() % boxes.size()];
    block* other = box.exchange(make(bytes), std::memory_order_acq_rel);
    if (other != nullptr && !destroy(other)) ++damaged;
  }
}

TEST(SlabStress, BlocksTravelBetweenThreadsThatComeAndGo) {
  gyre::slab_trim();
  const auto before = read_slab_stats();
  std::vector<mailbox> boxes(300);
  std::atomic<int> damaged{0};
  unsigned seed = 0;
  for (int generation = 0; generation < 40; ++generation) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, mine = ++seed, steps = 500 + 500 * i] {
        exchange_blocks(boxes, mine, steps, damaged);
      });
    }
    for (std::thread& thread : threads) thread.join();
    // Each mailbox holds at most one block, and each block keeps at most one slab.
    ASSERT_LE(read_slab_stats().bytes_held - before.bytes_held, boxes.size() * 64 * 1024);
  }
  for (mailbox& box : boxes) {
    if (block* left = box.load(std::memory_order_relaxed)) damaged += !destroy(left);
  }
  gyre::slab_trim();
  const auto after = read_slab_stats();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(after.blocks_in_use, before.blocks_in_use);
  EXPECT_EQ(after.bytes_held, before.bytes_held) << "slabs of ended threads were not freed";
  // The bound covers the heaps of four concurrent threads, of this thread, and of threads that
  // found every orphaned heap just being claimed by another thread: a few for 160 threads in all.
  EXPECT_LE(after.heaps, before.heaps + 16);
}

TEST(SlabStress, FreeingRacesWithTheEndOfTheOwner) {
  gyre::slab_trim();
  const auto before = read_slab_stats();
  for (int round = 0; round < 1500; ++round) {
    constexpr std::size_t count = 8;
    std::atomic<block*> boxes[count] = {};
    std::thread owner{[&] {
      for (mailbox& box : boxes) box.store(make(256), std::memory_order_release);
    }};
    for (mailbox& box : boxes) {
      block* received = nullptr;
      while ((received = box.load(std::memory_order_acquire)) == nullptr) {
        std::this_thread::yield();
      }
      ASSERT_TRUE(destroy(received));
    }
    owner.join();
  }
  const auto after = read_slab_stats();
  EXPECT_EQ(after.blocks_in_use, before.blocks_in_use);
  EXPECT_EQ(after.bytes_held, before.bytes_held);
}

}  // namespace
}  // namespace slab_stress_test
