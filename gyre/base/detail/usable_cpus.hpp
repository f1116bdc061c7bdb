// SPDX-License-Identifier: Apache-2.0
// usable_cpus: the CPUs on which the calling thread may run.
#pragma once

#include <vector>

namespace gyre::detail {

/// In ascending order; none if the machine has more of them than fit into a cpu_set_t.
std::vector<int> usable_cpus();

}  // namespace gyre::detail
