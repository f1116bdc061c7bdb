// SPDX-License-Identifier: Apache-2.0
// Tests of the allocation, the deallocation and the size of frames.
#include <gyre/task/detail/frame.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace frame_test {
namespace {

using gyre::sync_wait;
using gyre::task;

// Counts the blocks in use, and checks that size and alignment agree at deallocation.
class tracking_resource final : public std::pmr::memory_resource {
 public:
  std::size_t in_use() const noexcept { return in_use_; }
  std::size_t allocations() const noexcept { return allocations_; }

 private:
  struct header {
    std::size_t bytes;
    std::size_t alignment;
  };
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    auto* memory = static_cast<std::byte*>(::operator new(bytes + sizeof(header)));
    new (memory) header{bytes, alignment};
    in_use_ += bytes;
    ++allocations_;
    return memory + sizeof(header);
  }
  void do_deallocate(void* frame, std::size_t bytes, std::size_t alignment) override {
    std::byte* memory = static_cast<std::byte*>(frame) - sizeof(header);
    const header& given = *std::launder(reinterpret_cast<header*>(memory));
    EXPECT_EQ(given.bytes, bytes);
    EXPECT_EQ(given.alignment, alignment);
    in_use_ -= bytes;
    ::operator delete(memory, bytes + sizeof(header));
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::size_t in_use_ = 0;
  std::size_t allocations_ = 0;
};

using pmr = std::pmr::polymorphic_allocator<std::byte>;

[[gnu::noinline]] task<int> from_resource(std::allocator_arg_t, pmr, int value) {
  co_await gyre::yield();
  co_return value;
}
[[gnu::noinline]] task<int> by_reference(std::allocator_arg_t, const pmr&, const int& value) {
  co_return value;
}
[[gnu::noinline]] task<int> fails(std::allocator_arg_t, pmr) {
  throw std::runtime_error("no");
  co_return 0;
}

struct object {
  task<int> member(std::allocator_arg_t, pmr, int value) { co_return value + offset; }
  task<int> const_member(std::allocator_arg_t, pmr, int value) const { co_return value + offset; }
  int offset = 1;
};

TEST(FrameAllocator, GivesAndTakesTheFrame) {
  tracking_resource resource;
  EXPECT_EQ(sync_wait(from_resource(std::allocator_arg, &resource, 1)), 1);
  EXPECT_EQ(resource.allocations(), 1);
  EXPECT_EQ(resource.in_use(), 0);
  EXPECT_EQ(sync_wait(by_reference(std::allocator_arg, pmr(&resource), 2)), 2);
  EXPECT_THROW(sync_wait(fails(std::allocator_arg, &resource)), std::runtime_error);
  EXPECT_EQ(resource.allocations(), 3);
  EXPECT_EQ(resource.in_use(), 0);
}

TEST(FrameAllocator, TakesTheFrameOfATaskThatWasDropped) {
  tracking_resource resource;
  {
    const task<int> dropped = from_resource(std::allocator_arg, &resource, 1);
    EXPECT_GT(resource.in_use(), 0);
  }
  EXPECT_EQ(resource.in_use(), 0);
}

TEST(FrameAllocator, MayFollowTheObjectOfAMemberOrALambda) {
  tracking_resource resource;
  object of;
  EXPECT_EQ(sync_wait(of.member(std::allocator_arg, &resource, 1)), 2);
  EXPECT_EQ(sync_wait(std::as_const(of).const_member(std::allocator_arg, &resource, 2)), 3);
  auto lambda = [](std::allocator_arg_t, pmr, int value) -> task<int> { co_return value; };
  EXPECT_EQ(sync_wait(lambda(std::allocator_arg, &resource, 4)), 4);
  auto capturing = [offset = 1](std::allocator_arg_t, pmr, int value) -> task<int> {
    co_return value + offset;
  };
  EXPECT_EQ(sync_wait(capturing(std::allocator_arg, &resource, 4)), 5);
  EXPECT_EQ(resource.allocations(), 4);
  EXPECT_EQ(resource.in_use(), 0);
}

TEST(FrameAllocator, ThatHasNoMemoryThrowsFromTheCall) {
  EXPECT_THROW(
      static_cast<void>(from_resource(std::allocator_arg, std::pmr::null_memory_resource(), 1)),
      std::bad_alloc);
}

// The size of the last frame that the allocator below has recorded. The allocator is an empty
// type, so that nothing is stored after a frame.
std::size_t measured_bytes = 0;

template <class T>
struct measuring_allocator {
  using value_type = T;
  measuring_allocator() = default;
  template <class U>
  explicit(false) measuring_allocator(const measuring_allocator<U>&) noexcept {}
  T* allocate(std::size_t count) {
    measured_bytes = count * sizeof(T);
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    EXPECT_EQ(count * sizeof(T), measured_bytes);
    std::allocator<T>().deallocate(memory, count);
  }
  friend bool operator==(measuring_allocator, measuring_allocator) noexcept { return true; }
};
using measuring = measuring_allocator<std::byte>;

[[gnu::noinline]] task<int> one() { co_return 1; }
[[gnu::noinline]] task<int> leaf(std::allocator_arg_t, measuring) { co_return 1; }
[[gnu::noinline]] task<int> link(std::allocator_arg_t, measuring, int number) {
  co_return number + co_await one();
}
[[gnu::noinline]] task<> yields(std::allocator_arg_t, measuring) { co_await gyre::yield(); }
[[gnu::noinline]] task<> awaits_twice(std::allocator_arg_t, measuring) {
  co_await one();
  co_await one();
}

std::size_t frame_of(auto&& coroutine, auto... arguments) {
  const auto made = coroutine(std::allocator_arg, measuring(), arguments...);
  return measured_bytes;
}

// Holds only with optimisation and without backtraces. GCC keeps the allocator parameters, an index
// and a flag for each await, and does not reuse one await's memory for the next: for two awaits it
// keeps two tasks, each with a reference to it (await_transform.hpp).
TEST(FrameSize, IsAtMost64BytesBeyondTheUsersVariables) {
#if defined(NDEBUG) && defined(__OPTIMIZE__)
  constexpr bool optimised = !gyre::detail::records_backtraces;
#else
  constexpr bool optimised = false;
#endif
#if defined(__clang__)
  constexpr std::size_t bound = 64;
  constexpr std::size_t bound_of_two = 64;
#else
  constexpr std::size_t bound = 96;
  constexpr std::size_t bound_of_two = 112;
#endif
  if (!optimised) GTEST_SKIP() << "for release builds";
  EXPECT_LE(frame_of(leaf), 48);
  EXPECT_LE(frame_of(link, 1), bound);
  EXPECT_LE(frame_of(yields), bound);
  EXPECT_LE(frame_of(awaits_twice), bound_of_two);
}

// The frame is larger than any block of a slab.
[[gnu::noinline]] task<int> large(int value) {
  std::array<int, 4096> numbers;
  std::iota(numbers.begin(), numbers.end(), value);
  co_await gyre::yield();
  co_return std::accumulate(numbers.begin(), numbers.end(), 0);
}

TEST(SlabFrame, MayBeLargerThanAnyBlock) {
  static_assert(sizeof(int) * 4096 > gyre::slab_max_bytes);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sync_wait(large(i)), 4096 * i + 4096 * 4095 / 2);
}

TEST(SlabFrame, MayBeLargeInAContextOfItsOwn) {
  const auto before = gyre::read_slab_stats().blocks_in_use;
  auto all = []() -> task<> {
    const auto [first, second] = co_await gyre::when_all(large(1), large(2));
    EXPECT_EQ(second - first, 4096);
    EXPECT_EQ((co_await gyre::when_any(large(1), one())).index, 1);
    EXPECT_EQ((co_await gyre::when_any(one(), large(1))).index, 0);
  };
  sync_wait(all());
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
}

template <class... Parameters>
constexpr bool is_plain = gyre::detail::has_plain_frame<
    typename std::coroutine_traits<task<int>, Parameters...>::promise_type>;
#if !defined(__clang__)
constexpr bool may_be_plain = !gyre::detail::records_backtraces;
#else
constexpr bool may_be_plain = false;
#endif
static_assert(is_plain<> == may_be_plain);
static_assert(is_plain<int, std::string&, const tracking_resource*> == may_be_plain);
static_assert(!is_plain<int, std::string> && !is_plain<std::unique_ptr<int>, int>);

// With GCC the frame of a coroutine like `one` is freed at its end without being destroyed.
TEST(SlabFrame, IsFreedWithWhateverItHolds) {
  static int alive = 0;
  struct counted {
    counted() noexcept { ++alive; }
    counted(const counted&) noexcept { ++alive; }
    counted& operator=(const counted&) = delete;
    ~counted() { --alive; }
  };
  struct coroutines {
    counted local;
    task<int> member(int value) { co_return value; }
    static task<int> by_value(counted, int value) { co_return value; }
    static task<int> by_reference(const counted&, int value) { co_return value; }
    static task<int> large(counted, int value) {
      co_return co_await frame_test::large(value) - 4096 * 4095 / 2 - 4095 * value;
    }
    static task<int> local_variable(int value) {
      const counted here;
      co_return co_await by_value(here, value);
    }
    static task<int> fails(counted, int value) {
      if (value == 1) throw std::runtime_error("one");
      co_return value;
    }
    static task<std::string> text(int value) {
      co_return std::string(100, static_cast<char>(value));
    }
  };
  const auto before = gyre::read_slab_stats().blocks_in_use;
  {
    coroutines all;
    auto lambda = [held = counted()](int value) -> task<int> { co_return value + alive - alive; };
    auto everything = [&]() -> task<int> {
      int sum = co_await all.member(1);
      sum += co_await coroutines::by_value({}, 1);
      sum += co_await coroutines::by_reference({}, 1);
      sum += co_await coroutines::large({}, 1);
      sum += co_await coroutines::local_variable(1);
      sum += co_await lambda(1);
      sum += static_cast<int>((co_await coroutines::text('x')).size() / 100);
      try {
        sum += co_await coroutines::fails({}, 1);
      } catch (const std::runtime_error&) {
        ++sum;
      }
      {
        const task<int> never_started = coroutines::by_value({}, 1);
      }
      co_return sum;
    };
    EXPECT_EQ(sync_wait(everything()), 8);
    EXPECT_EQ(alive, 2);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
}

// A program's promise, with frames of its own that the slab does not know, and a look at the
// coroutine's parameter.
struct own_task {
  struct promise_type;
  explicit(false) own_task(task<int> made) noexcept : work(std::move(made)) {}
  task<int> work;
};
struct own_task::promise_type : task<int>::promise_type {
  promise_type() = default;
  explicit promise_type(int parameter) noexcept { last_parameter = parameter; }
  static void* operator new(std::size_t bytes) {
    ++frames;
    return std::malloc(bytes);
  }
  static void operator delete(void* frame, std::size_t) noexcept {
    --frames;
    std::free(frame);
  }
  static inline int last_parameter = 0;
  static inline int frames = 0;
};
[[gnu::noinline]] own_task own_coroutine(int value) { co_return value; }
[[gnu::noinline]] own_task own_large_coroutine(int value) {
  co_return co_await large(value) + value;
}

TEST(SlabFrame, IsNotThatOfAPromiseOfTheProgram) {
  EXPECT_EQ(sync_wait(own_coroutine(3).work), 3);
  EXPECT_EQ(own_task::promise_type::last_parameter, 3);
  EXPECT_EQ(sync_wait(own_large_coroutine(2).work), 4096 * 2 + 4096 * 4095 / 2 + 2);
  EXPECT_EQ(own_task::promise_type::last_parameter, 2);
  EXPECT_EQ(own_task::promise_type::frames, 0);
}

TEST(SlabFrame, HoldsOnlyWhatRuns) {
  const auto before = gyre::read_slab_stats().blocks_in_use;
  {
    const task<int> waits = one();
    EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before + 1);
  }
  for (int i = 0; i < 100; ++i) sync_wait(one());
  EXPECT_EQ(gyre::read_slab_stats().blocks_in_use, before);
}

// Frames are made on one thread and end on another, in batches: each block must return to its slab,
// or memory would grow without end.
TEST(SlabFrame, ThatEndsOnAnotherThreadComesHome) {
  constexpr int batches = 100;
  constexpr std::size_t each = 1000;
  gyre::test::thread_executor there;
  auto ends_all = [](std::vector<task<int>> tasks) -> task<int> {
    int sum = 0;
    for (auto& ready : tasks) sum += co_await std::move(ready);
    co_return sum;
  };
  std::size_t held_early = 0;
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<task<int>> made;
    for (std::size_t i = 0; i < each; ++i) made.push_back(one());
    ASSERT_EQ(sync_wait(gyre::on(there, ends_all(std::move(made)))), int{each});
    if (batch == 10) held_early = gyre::read_slab_stats().bytes_held;
  }
  EXPECT_LE(gyre::read_slab_stats().bytes_held, held_early + (std::size_t{256} << 10));
}

}  // namespace
}  // namespace frame_test
