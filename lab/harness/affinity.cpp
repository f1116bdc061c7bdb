// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/affinity.hpp>

#include <lab/harness/arguments.hpp>

#include <sched.h>

namespace lab {

void pin_thread(const std::vector<unsigned>& cpus) {
  if (cpus.empty()) return;
  const auto unusable = [] {
    return usage_error("--pin: not all of these CPUs are there to be used");
  };
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const unsigned cpu : cpus) {
    if (cpu >= CPU_SETSIZE) throw unusable();
    CPU_SET(cpu, &wanted);
  }
  // The kernel silently drops CPUs that it does not have; a run on fewer CPUs would mislead.
  cpu_set_t granted;
  CPU_ZERO(&granted);
  if (sched_setaffinity(0, sizeof wanted, &wanted) != 0 ||
      sched_getaffinity(0, sizeof granted, &granted) != 0 || !CPU_EQUAL(&wanted, &granted)) {
    throw unusable();
  }
}

unsigned usable_cpus() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof usable, &usable);
  return static_cast<unsigned>(CPU_COUNT(&usable));
}

}  // namespace lab
