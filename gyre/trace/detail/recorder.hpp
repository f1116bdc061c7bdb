// SPDX-License-Identifier: Apache-2.0
// recorder: the flight recorder of one thread.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/event_ring.hpp>
#include <gyre/trace/detail/probes.hpp>

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

// The library and its users may be built with different values of this macro: a library without the
// recorder returns null for every thread.
#if !defined(GYRE_TRACE)
#define GYRE_TRACE 1
#endif
// Whether each event fires a probe: see detail/probes.hpp.
#if !defined(GYRE_USDT)
#define GYRE_USDT 0
#endif

namespace gyre::trace::detail {

/// Whether this translation unit records events. The model checker does not explore the recorder.
#if GYRE_TRACE && !defined(GYRE_MODEL_CHECK)
inline constexpr bool is_compiled_in = true;
#else
inline constexpr bool is_compiled_in = false;
#endif

/// Whether events are recorded now. A std::atomic, not gyre's, as it orders nothing.
extern constinit std::atomic<bool> recording_is_on;
/// The memory for the events of a thread that makes a recorder, in bytes.
extern constinit std::atomic<std::size_t> ring_size;
/// See min_function_length().
extern constinit std::atomic<gyre::detail::tick_count> min_recorded_length;

/// The function or handler that a thread runs now.
struct activity_info {
  gyre::detail::tick_count begin = 0;
  event_kind kind = event_kind::none;
  std::uint64_t object = 0;
};

/// The rings of one thread, and the activity that it is in.
///
/// Events of at least notable_length go to a ring of their own, so that a busy second does not
/// overwrite what was slow ten seconds ago.
///
/// Thread-safety: one thread at a time writes; any thread may read meanwhile.
class alignas(false_sharing_range) recorder {
 public:
  recorder(std::span<event_ring::slot> recent_slots, std::span<event_ring::slot> notable_slots,
           gyre::detail::tick_count notable_length) noexcept
      : recent_events_(recent_slots),
        notable_events_(notable_slots),
        notable_length_(notable_length) {}

  /// Adds an event. Called by the thread.
  void push(const event& entry) noexcept {
    if constexpr (!is_compiled_in) return;
    if (entry.length >= notable_length_) [[unlikely]] {
      push_notable(entry);
    } else {
      recent_events_.push(entry);
    }
    if constexpr (GYRE_USDT != 0) fire_probe(entry);
  }
  /// Whether events of this length are kept for long.
  [[nodiscard]] bool is_notable(gyre::detail::tick_count length) const noexcept {
    return length >= notable_length_;
  }
  /// Sets the activity of the thread; a beginning of zero means none. Called by the thread.
  void set_activity(const activity_info& activity) noexcept {
    // A reader that sees one of the new words also sees that the old beginning is not valid any
    // more: release, pairs with the acquire in activity().
    activity_begin_.store(0, std::memory_order_relaxed);
    activity_kind_.store(activity.kind, std::memory_order_release);
    activity_object_.store(activity.object, std::memory_order_release);
    activity_begin_.store(activity.begin, std::memory_order_release);
  }
  /// Returns the activity that the thread itself has set.
  [[nodiscard]] activity_info own_activity() const noexcept {
    return {.begin = activity_begin_.load(std::memory_order_relaxed),
            .kind = activity_kind_.load(std::memory_order_relaxed),
            .object = activity_object_.load(std::memory_order_relaxed)};
  }
  /// Returns the activity; nothing if the thread is in none, or changes it meanwhile. Any thread.
  [[nodiscard]] std::optional<activity_info> activity() const noexcept;

  /// Appends to `events` the events of both rings that were added since the last adopt(). Any
  /// thread. Throws std::bad_alloc.
  void append_to(std::vector<event>& events) const;

  /// The kernel's id of the thread that writes, or that wrote last. Any thread.
  [[nodiscard]] ::pid_t thread() const noexcept { return thread_.load(std::memory_order_relaxed); }
  /// Makes the calling thread the writer. Called while no thread is.
  void adopt(::pid_t thread) noexcept;

 private:
  // Adds an event that is kept for long, and has it reported if it exceeds a limit.
  [[gnu::cold, gnu::noinline]] void push_notable(const event& entry) noexcept;

  event_ring recent_events_;
  event_ring notable_events_;
  const gyre::detail::tick_count notable_length_;
  gyre::detail::atomic<gyre::detail::tick_count> activity_begin_{0};
  gyre::detail::atomic<event_kind> activity_kind_{event_kind::none};
  gyre::detail::atomic<std::uint64_t> activity_object_{0};
  // The members below change when another thread adopts the recorder.
  gyre::detail::atomic<::pid_t> thread_{0};
  gyre::detail::atomic<std::uint64_t> recent_skipped_{0};
  gyre::detail::atomic<std::uint64_t> notable_skipped_{0};
};

/// Returns the recorder of the calling thread; makes one if the thread has none. Returns null if
/// recording is off, if there is no memory, if the thread is ending, or without the recorder
/// (GYRE_TRACE=OFF). Not inlined, because compilers cache the addresses of thread-locals, and a
/// coroutine may be on another thread after each suspension. Some 2 ns.
[[nodiscard, gnu::noinline]] recorder* recorder_here() noexcept;

/// Returns recorder_here(); null, known at compile time, if the recorder is left out of the build.
[[nodiscard]] inline recorder* find_recorder() noexcept {
  if constexpr (is_compiled_in) {
    return recorder_here();
  } else {
    return nullptr;
  }
}

/// Returns the length in ticks from which functions are recorded one by one: 3 µs, which is far
/// more than an event costs.
inline gyre::detail::tick_count min_function_length() noexcept {
  if constexpr (is_compiled_in) {
    // relaxed: the setting orders nothing.
    return min_recorded_length.load(std::memory_order_relaxed);
  } else {
    return 0;
  }
}

/// Returns the present time in ticks if `target` is not null.
inline gyre::detail::tick_count begin_event(const recorder* target) noexcept {
  return target == nullptr ? 0 : gyre::detail::read_ticks();
}

/// Adds an event that began at `begin`, the result of begin_event(target), and ends now.
inline void end_event(recorder* target, gyre::detail::tick_count begin, event_kind kind,
                      std::uint64_t object, std::uint64_t value = 0) noexcept {
  if (target == nullptr) return;
  target->push({.begin = begin,
                .length = gyre::detail::read_ticks() - begin,
                .kind = kind,
                .object = object,
                .value = value});
}

/// Adds an event to the recorder of the calling thread, if there is one.
[[gnu::noinline]] void push_event(gyre::detail::tick_count begin, event_kind kind,
                                  std::uint64_t object, std::uint64_t value) noexcept;
[[gnu::noinline]] void push_moment(event_kind kind, std::uint64_t object,
                                   std::uint64_t value) noexcept;

/// Adds an event that began at `begin`, the result of begin_now(), perhaps on another thread, and
/// ends now on the calling thread. Does nothing if `begin` is zero.
inline void record_since(gyre::detail::tick_count begin, event_kind kind, std::uint64_t object,
                         std::uint64_t value = 0) noexcept {
  if constexpr (is_compiled_in) {
    if (begin != 0) push_event(begin, kind, object, value);
  }
}

/// Adds a wait to the recorder of the calling thread, if there is one.
[[gnu::noinline]] void push_wait(gyre::detail::tick_count begin, event_kind kind,
                                 std::string_view name) noexcept;

/// Adds a wait that began at `begin`, the result of begin_now(), and ends now, with a name that may
/// come from a peer, such as that of a host. Waits of less than 1 ms have no name.
inline void record_wait(gyre::detail::tick_count begin, event_kind kind,
                        std::string_view name) noexcept {
  if constexpr (is_compiled_in) {
    if (begin != 0) push_wait(begin, kind, name);
  }
}

/// Adds a moment of the calling thread.
inline void record_moment(event_kind kind, std::uint64_t object, std::uint64_t value = 0) noexcept {
  if constexpr (is_compiled_in) push_moment(kind, object, value);
}

/// Returns the present time in ticks if events are recorded, else zero.
inline gyre::detail::tick_count begin_now() noexcept {
  if constexpr (is_compiled_in) {
    // relaxed: the setting orders nothing.
    return recording_is_on.load(std::memory_order_relaxed) ? gyre::detail::read_ticks() : 0;
  } else {
    return 0;
  }
}

/// The address of `object` as that of an event.
inline std::uint64_t address_of(const void* object) noexcept {
  return reinterpret_cast<std::uintptr_t>(object);
}
template <class Result, class... Arguments>
std::uint64_t address_of(Result (*function)(Arguments...)) noexcept {
  return reinterpret_cast<std::uintptr_t>(function);
}

}  // namespace gyre::trace::detail
