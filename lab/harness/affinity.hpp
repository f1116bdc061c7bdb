// SPDX-License-Identifier: Apache-2.0
// CPU affinity: the CPUs on which a thread may run.
#pragma once

#include <vector>

namespace lab {

/// Restricts the calling thread, and the threads that it starts from now on, to these CPUs; an
/// empty list changes nothing.
/// Errors: throws usage_error for a CPU that the machine does not have or that the process may not
/// use.
void pin_thread(const std::vector<unsigned>& cpus);

/// The number of CPUs on which the calling thread may run.
unsigned usable_cpus();

}  // namespace lab
