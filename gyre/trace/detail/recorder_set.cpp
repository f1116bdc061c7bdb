// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/recorder_set.hpp>

#include <gyre/base/detail/fork_handlers.hpp>
#include <gyre/base/detail/process_threads.hpp>
#include <gyre/base/detail/read_file.hpp>
#include <gyre/base/detail/system_memory.hpp>
#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/intern_peer_name.hpp>
#include <gyre/trace/label.hpp>
#include <gyre/trace/recording.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::trace::detail {

constinit std::atomic<bool> recording_is_on{is_compiled_in};
constinit std::atomic<std::size_t> ring_size{default_ring_size};
constinit std::atomic<gyre::detail::tick_count> min_recorded_length{0};

namespace {

/// A recorder in the memory of its rings, as an element of the list of all recorders.
struct recorder_block {
  recorder_block(std::span<event_ring::slot> recent_slots,
                 std::span<event_ring::slot> notable_slots,
                 gyre::detail::tick_count notable_length) noexcept
      : object(recent_slots, notable_slots, notable_length) {}

  recorder object;
  recorder_block* next = nullptr;
  std::array<char, 16> last_name{};  // the name of an ended thread
  bool is_free = false;
};

/// All recorders, the latest first, which are never freed.
struct recorder_list {
  std::mutex mutex;  // guards all members, and the assignment of recorders to threads
  recorder_block* first = nullptr;
  std::size_t size = 0;
};

constinit recorder_list recorders;

constinit thread_local recorder_block* block_here = nullptr;
constinit thread_local bool has_thread_ended = false;

constexpr std::chrono::milliseconds notable_time{1};
constexpr std::chrono::microseconds min_recorded_time{3};

/// Gives up the thread's recorder when the thread ends.
struct recorder_lease {
  recorder_lease() = default;
  recorder_lease& operator=(recorder_lease&&) = delete;
  ~recorder_lease() {
    const std::lock_guard lock(recorders.mutex);
    recorder_block* const block = std::exchange(block_here, nullptr);
    has_thread_ended = true;
    if (block == nullptr) return;
    block->object.set_activity({});
    block->last_name = gyre::detail::thread_name();
    block->is_free = true;
  }
};

// The other threads do not exist in a child process, and its own thread has another id.
void restart_in_child() {
  for (recorder_block* block = recorders.first; block != nullptr; block = block->next) {
    if (block == block_here) {
      block->object.adopt(gyre::detail::thread_id());
    } else {
      block->object.adopt(0);
      block->is_free = true;
    }
  }
  recorders.mutex.unlock();
}

void prepare_first_recorder() {
  const char* const setting = std::getenv("GYRE_TRACE");
  if (setting != nullptr && setting == std::string_view("off")) set_recording(false);
  const gyre::detail::tick_rate rate = gyre::detail::measured_tick_rate();
  min_recorded_length.store(rate.to_ticks(min_recorded_time), std::memory_order_relaxed);
  gyre::detail::add_fork_handlers({.before = [] { recorders.mutex.lock(); },
                                   .in_parent = [] { recorders.mutex.unlock(); },
                                   .in_child = &restart_in_child});
}

// Makes a recorder; returns null without memory. The caller must hold the mutex.
recorder_block* make_recorder() noexcept {
  const std::size_t rings_size = ring_size.load(std::memory_order_relaxed);
  constexpr std::size_t header_size =
      std::bit_ceil(std::max(sizeof(recorder_block), alignof(recorder_block)));
  void* const memory = gyre::detail::map_zeroed(header_size + rings_size);
  if (memory == nullptr) return nullptr;
  // The zeros are valid slots. No constructor runs, so that the pages take no memory before they
  // are written.
  auto* const slots = reinterpret_cast<event_ring::slot*>(  // NOLINT: see above
      static_cast<std::byte*>(memory) + header_size);
  const std::size_t half_size = rings_size / sizeof(event_ring::slot) / 2;
  const gyre::detail::tick_count notable_length =
      gyre::detail::measured_tick_rate().to_ticks(notable_time);
  auto* const block = ::new (memory) recorder_block(
      std::span(slots, half_size), std::span(slots + half_size, half_size), notable_length);
  block->next = recorders.first;
  recorders.first = block;
  ++recorders.size;
  return block;
}

[[gnu::cold, gnu::noinline]] recorder* adopt_recorder() noexcept {
  if (has_thread_ended) return nullptr;
  [[maybe_unused]] static const bool is_prepared = (prepare_first_recorder(), true);
  static thread_local const recorder_lease lease;
  if (!recording_is_on.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(recorders.mutex);
  // The recorder that has been free for longest is usually the oldest one.
  recorder_block* block = nullptr;
  for (recorder_block* candidate = recorders.first; candidate != nullptr;
       candidate = candidate->next) {
    if (candidate->is_free) block = candidate;
  }
  if (block == nullptr) block = make_recorder();
  if (block == nullptr) return nullptr;
  block->is_free = false;
  block->object.adopt(gyre::detail::thread_id());
  block_here = block;
  return &block->object;
}

std::string name_of(::pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/comm";
  auto name = gyre::detail::read_file(path.c_str());
  if (!name) return {};
  if (name->ends_with('\n')) name->pop_back();
  return *std::move(name);
}

}  // namespace

recorder* recorder_here() noexcept {
  if (!recording_is_on.load(std::memory_order_relaxed)) return nullptr;
  recorder_block* const block = block_here;
  return block != nullptr ? &block->object : adopt_recorder();
}

void push_event(gyre::detail::tick_count begin, event_kind kind, std::uint64_t object,
                std::uint64_t value) noexcept {
  end_event(recorder_here(), begin, kind, object, value);
}

void push_wait(gyre::detail::tick_count begin, event_kind kind, std::string_view name) noexcept {
  static constexpr label short_wait = "(short)";
  recorder* const target = recorder_here();
  if (target == nullptr) return;
  const gyre::detail::tick_count length = gyre::detail::read_ticks() - begin;
  const label text = target->is_notable(length) ? intern_peer_name(name) : short_wait;
  target->push({.begin = begin,
                .length = length,
                .kind = kind,
                .object = address_of(text.c_str()),
                .value = 0});
}

void push_moment(event_kind kind, std::uint64_t object, std::uint64_t value) noexcept {
  recorder* const target = recorder_here();
  if (target == nullptr) return;
  target->push({.begin = gyre::detail::read_ticks(),
                .length = 0,
                .kind = kind,
                .object = object,
                .value = value});
}

std::vector<thread_record> copy_records() {
  std::vector<thread_record> records;
  {
    const std::lock_guard lock(recorders.mutex);
    for (const recorder_block* block = recorders.first; block != nullptr; block = block->next) {
      thread_record& record = records.emplace_back();
      record.thread = block->object.thread();
      record.has_ended = block->is_free;
      if (block->is_free) record.name = block->last_name.data();
      record.activity = block->object.activity();
      block->object.append_to(record.events);
    }
  }
  std::erase_if(records, [](const thread_record& record) { return record.thread == 0; });
  for (thread_record& record : records) {
    if (!record.has_ended) record.name = name_of(record.thread);
    std::ranges::sort(record.events, [](const event& left, const event& right) {
      return left.begin != right.begin ? left.begin < right.begin : left.length > right.length;
    });
  }
  return records;
}

std::optional<activity_info> activity_of(::pid_t thread) noexcept {
  const std::lock_guard lock(recorders.mutex);
  for (const recorder_block* block = recorders.first; block != nullptr; block = block->next) {
    if (block->object.thread() == thread && !block->is_free) return block->object.activity();
  }
  return std::nullopt;
}

std::size_t recorder_count() noexcept {
  const std::lock_guard lock(recorders.mutex);
  return recorders.size;
}

}  // namespace gyre::trace::detail
