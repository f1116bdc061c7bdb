// SPDX-License-Identifier: Apache-2.0
// available_parallelism: the number of threads that can run at once in this process.
//
//     gyre::loop_pool loops(gyre::available_parallelism());
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gyre {

/// The number of CPUs that the calling thread may use, or the CPU time per time that the process's
/// control groups grant if that is less; at least 1. runtime and thread_pool use it by default.
///
/// The quota of a container is the smallest one of its control group and of the groups around that,
/// in both versions (`cpu.max`; `cpu.cfs_quota_us` and `cpu.cfs_period_us`). A fraction counts as
/// one CPU more, as in Java and Go: 1.5 CPUs are 2. Weights and shares are no limit, and do not
/// count. Where /proc or the groups cannot be read, there is no quota.
///
/// Thread-safety: any thread.
/// Errors: std::bad_alloc.
/// Complexity: reads some ten files of /proc and /sys each time, as limits may change: some 100 us.
[[nodiscard]] std::size_t available_parallelism();

namespace detail {

using affinity_call = int (*)(::pid_t, std::size_t, ::cpu_set_t*);

/// The CPUs on which the calling thread may run, in ascending order, however many the machine has;
/// none if the kernel does not tell them. `get_affinity`: sched_getaffinity(2), or its replacement
/// in a test.
std::vector<int> usable_cpus(affinity_call get_affinity = &::sched_getaffinity);

/// The quota of the process's control groups, in CPUs; none without a limit. `root` precedes all
/// paths, for tests.
std::optional<double> control_group_quota(const std::string& root = "");

/// The smaller one of `cpus` and `quota`, which is rounded up; at least 1.
std::size_t parallelism_of(std::size_t cpus, std::optional<double> quota) noexcept;

}  // namespace detail
}  // namespace gyre
