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

/// Returns the number of CPUs that the calling thread may use or, if lower, the CPU quota of the
/// process's control groups; at least 1. The default number of threads of runtime and thread_pool.
///
/// The quota of a container is the smallest of the quotas of its control group and of the parent
/// groups, in both versions (`cpu.max`; `cpu.cfs_quota_us` and `cpu.cfs_period_us`). A fraction is
/// rounded up, as in Java and Go: 1.5 CPUs count as 2. Weights and shares are not limits and are
/// ignored. If /proc or the groups cannot be read, there is no quota.
///
/// Thread-safety: any thread.
/// Errors: std::bad_alloc.
/// Complexity: reads some ten files of /proc and /sys in each call, because limits may change: some
/// 100 us.
[[nodiscard]] std::size_t available_parallelism();

namespace detail {

using affinity_call = int (*)(::pid_t, std::size_t, ::cpu_set_t*);

/// Returns the CPUs on which the calling thread may run, in ascending order, for any number of
/// CPUs; none if the kernel does not report them. `get_affinity` is sched_getaffinity(2), or its
/// replacement in a test.
std::vector<int> usable_cpus(affinity_call get_affinity = &::sched_getaffinity);

/// Returns the quota of the process's control groups, in CPUs; nullopt if there is no limit. `root`
/// precedes all paths, for tests.
std::optional<double> control_group_quota(const std::string& root = "");

/// Returns the smaller of `cpus` and the rounded-up `quota`; at least 1.
std::size_t parallelism_of(std::size_t cpus, std::optional<double> quota) noexcept;

}  // namespace detail
}  // namespace gyre
