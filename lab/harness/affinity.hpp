// SPDX-License-Identifier: Apache-2.0
// Which CPUs a thread may run on.
#pragma once

#include <vector>

namespace lab {

/// Lets the calling thread, and those it starts from now on, run on these CPUs only; does nothing
/// when there are none. Throws usage_error for a CPU that the machine does not have or that the
/// process may not use.
void pin_thread(const std::vector<unsigned>& cpus);

/// How many CPUs the calling thread may run on.
unsigned usable_cpus();

}  // namespace lab
