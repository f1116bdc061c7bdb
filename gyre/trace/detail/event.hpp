// SPDX-License-Identifier: Apache-2.0
// event: one entry of the flight recorder.
#pragma once

#include <gyre/base/detail/ticks.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gyre::trace::detail {

/// The kinds of events. The table in event_kinds below describes each.
enum class event_kind : std::uint8_t {
  none,
  batch,
  task,
  coroutine,
  io,
  io_callback,
  io_coroutine,
  heavy,
  timers,
  timer,
  timer_coroutine,
  late_timers,
  sleep,
  wake,
  pool_task,
  pool_coroutine,
  pool_sleep,
  steal,
  blocked_submit,
  lock_wait,
  handler,
  request,
  resolve,
  connect,
  handshake,
  statement,
  command,
  nats_request,
  job,
  span_begin,
  span,
  held,
  pause,
};

/// The meaning of an event's object.
enum class object_kind : std::uint8_t {
  nothing,   ///< the object is unused, or only compared with those of other events
  label,     ///< the address of a text that is never freed
  function,  ///< the address of a function's code
};

/// The description of a kind of event.
struct event_kind_info {
  event_kind kind;
  std::string_view name;      ///< in dumps
  std::string_view category;  ///< in dumps
  object_kind object;
  bool holds_thread;            ///< whether the thread could run nothing else meanwhile
  std::string_view value_name;  ///< of event::value in dumps; empty if the value is not shown
};

inline constexpr std::array event_kinds = {
    event_kind_info{event_kind::none, "none", "", object_kind::nothing, false, ""},
    event_kind_info{event_kind::batch, "batch", "loop", object_kind::nothing, true, "tasks"},
    event_kind_info{event_kind::task, "task", "loop", object_kind::function, true, ""},
    event_kind_info{event_kind::coroutine, "coroutine", "loop", object_kind::function, true, ""},
    event_kind_info{event_kind::io, "io", "loop", object_kind::nothing, true, "events"},
    event_kind_info{event_kind::io_callback, "callback", "io", object_kind::function, true, ""},
    event_kind_info{event_kind::io_coroutine, "coroutine", "io", object_kind::function, true, ""},
    event_kind_info{event_kind::heavy, "heavy operations", "loop", object_kind::nothing, true, ""},
    event_kind_info{event_kind::timers, "timers", "loop", object_kind::nothing, true, "fired"},
    event_kind_info{event_kind::timer, "timer", "loop", object_kind::function, true, ""},
    event_kind_info{event_kind::timer_coroutine, "coroutine", "loop", object_kind::function, true,
                    ""},
    event_kind_info{event_kind::late_timers, "late timers", "loop", object_kind::nothing, false,
                    "fired"},
    event_kind_info{event_kind::sleep, "sleep", "loop", object_kind::nothing, false, ""},
    event_kind_info{event_kind::wake, "wake", "loop", object_kind::nothing, false, ""},
    event_kind_info{event_kind::pool_task, "task", "pool", object_kind::function, true, ""},
    event_kind_info{event_kind::pool_coroutine, "coroutine", "pool", object_kind::function, true,
                    ""},
    event_kind_info{event_kind::pool_sleep, "sleep", "pool", object_kind::nothing, false, ""},
    event_kind_info{event_kind::steal, "steal", "pool", object_kind::nothing, false, "victim"},
    event_kind_info{event_kind::blocked_submit, "blocked submit", "pool", object_kind::nothing,
                    true, ""},
    event_kind_info{event_kind::lock_wait, "lock wait", "sync", object_kind::function, false, ""},
    event_kind_info{event_kind::handler, "handler", "http", object_kind::label, true, ""},
    event_kind_info{event_kind::request, "request", "http", object_kind::label, false, "status"},
    event_kind_info{event_kind::resolve, "resolve", "net", object_kind::label, false, ""},
    event_kind_info{event_kind::connect, "connect", "net", object_kind::label, false, ""},
    event_kind_info{event_kind::handshake, "handshake", "tls", object_kind::nothing, false, ""},
    event_kind_info{event_kind::statement, "statement", "postgres", object_kind::label, false, ""},
    event_kind_info{event_kind::command, "command", "redis", object_kind::label, false, ""},
    event_kind_info{event_kind::nats_request, "nats request", "nats", object_kind::label, false,
                    ""},
    event_kind_info{event_kind::job, "job", "work", object_kind::label, false, "job"},
    event_kind_info{event_kind::span_begin, "span", "span", object_kind::label, false, ""},
    event_kind_info{event_kind::span, "span", "span", object_kind::label, false, ""},
    event_kind_info{event_kind::held, "held", "watchdog", object_kind::label, false, "thread"},
    event_kind_info{event_kind::pause, "pause", "watchdog", object_kind::nothing, false, ""},
};

static_assert(
    [] {
      for (std::size_t index = 0; index < event_kinds.size(); ++index) {
        if (static_cast<std::size_t>(event_kinds[index].kind) != index) return false;
      }
      return true;
    }(),
    "event_kinds is ordered by kind");

/// Returns the description of `kind`; that of event_kind::none for an unknown number.
constexpr const event_kind_info& info_of(event_kind kind) noexcept {
  return event_kinds[static_cast<std::size_t>(kind) < event_kinds.size()
                         ? static_cast<std::size_t>(kind)
                         : 0];
}

/// Something that a thread did.
struct event {
  gyre::detail::tick_count begin = 0;
  gyre::detail::tick_count length = 0;  ///< below 2^56; 0 for a moment
  event_kind kind = event_kind::none;
  std::uint64_t object = 0;  ///< see object_kind
  std::uint64_t value = 0;   ///< see event_kind_info::value_name

  static constexpr std::size_t words = 4;

  constexpr std::array<std::uint64_t, words> pack() const noexcept {
    return {begin, length << kind_bits | static_cast<std::uint64_t>(kind), object, value};
  }
  static constexpr event unpack(const std::array<std::uint64_t, words>& packed_words) noexcept {
    return {.begin = packed_words[0],
            .length = packed_words[1] >> kind_bits,
            .kind = static_cast<event_kind>(packed_words[1] & ((1U << kind_bits) - 1)),
            .object = packed_words[2],
            .value = packed_words[3]};
  }

 private:
  static constexpr unsigned kind_bits = 8;
};

}  // namespace gyre::trace::detail
