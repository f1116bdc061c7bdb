// SPDX-License-Identifier: Apache-2.0
#include <gyre/runtime/detail/observation.hpp>

#include <cstddef>
#include <string>

namespace gyre::detail {

observation::observation(loop_pool& loops, thread_pool& pool) {
  for (std::size_t i = 0; i < loops.size(); ++i) {
    registrations_.push_back(registry_.add("loop " + std::to_string(i), loops[i]));
  }
  registrations_.push_back(registry_.add("pool", pool));
}

}  // namespace gyre::detail
