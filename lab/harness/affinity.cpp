// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/affinity.hpp>

#include <lab/harness/arguments.hpp>

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace lab {

void pin_thread(const std::vector<unsigned>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const unsigned cpu : cpus) {
    if (cpu >= CPU_SETSIZE) throw usage_error("--pin: there is no CPU " + std::to_string(cpu));
    CPU_SET(cpu, &wanted);
  }
  if (sched_setaffinity(0, sizeof wanted, &wanted) != 0) {
    throw usage_error(std::string("--pin: ") + std::strerror(errno));
  }
  // The kernel silently drops CPUs it does not have; to run on fewer than asked for would mislead.
  cpu_set_t granted;
  CPU_ZERO(&granted);
  if (sched_getaffinity(0, sizeof granted, &granted) != 0 || !CPU_EQUAL(&wanted, &granted)) {
    throw usage_error("--pin: not all of these CPUs are there to be used");
  }
}

}  // namespace lab
