// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/probes.hpp>

#include <gyre/trace/detail/recorder.hpp>

#if GYRE_USDT

#include <gyre/base/detail/ticks.hpp>

#include <cstdint>

#define _SDT_HAS_SEMAPHORES 1  // NOLINT: the name that <sys/sdt.h> asks for
#include <sys/sdt.h>

#define GYRE_EACH_PROBE(apply)                                                                   \
  apply(batch) apply(task) apply(coroutine) apply(io) apply(io_callback) apply(io_coroutine)     \
      apply(heavy) apply(timers) apply(timer) apply(timer_coroutine) apply(late_timers)          \
          apply(sleep) apply(wake) apply(pool_task) apply(pool_coroutine) apply(pool_sleep)      \
              apply(steal) apply(blocked_submit) apply(lock_wait) apply(handler) apply(request)  \
                  apply(resolve) apply(connect) apply(handshake) apply(statement) apply(command) \
                      apply(nats_request) apply(job) apply(span_begin) apply(span) apply(held)   \
                          apply(pause)

// A tool raises the semaphore of a probe while it listens to the probe. It looks for semaphores in
// this section, and <sys/sdt.h> refers to them by these names.
#define GYRE_PROBE_SEMAPHORE(kind)                                  \
  [[gnu::section(".probes"), gnu::used, gnu::visibility("hidden")]] \
  volatile unsigned short gyre_##kind##_semaphore = 0;  // NOLINT: a tool writes it

extern "C" {
GYRE_EACH_PROBE(GYRE_PROBE_SEMAPHORE)
}

namespace gyre::trace::detail {

void fire_probe(const event& entry) noexcept {
  const auto nanoseconds_of = [](gyre::detail::tick_count length) {
    return gyre::detail::measured_tick_rate().to_duration(length).count();
  };
#define GYRE_FIRE_PROBE(kind_name)                                            \
  case event_kind::kind_name:                                                 \
    if (gyre_##kind_name##_semaphore != 0) {                                  \
      const std::int64_t nanoseconds = nanoseconds_of(entry.length);          \
      DTRACE_PROBE3(gyre, kind_name, entry.object, nanoseconds, entry.value); \
    }                                                                         \
    break;
  switch (entry.kind) {
    case event_kind::none: break; GYRE_EACH_PROBE(GYRE_FIRE_PROBE)
  }
}

}  // namespace gyre::trace::detail

#endif
