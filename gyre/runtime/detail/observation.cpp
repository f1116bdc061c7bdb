// SPDX-License-Identifier: Apache-2.0
#include <gyre/runtime/detail/observation.hpp>

#include <cstddef>
#include <string>

namespace gyre::detail {

observation::observation(loop_pool& loops, thread_pool& pool) {
  for (std::size_t each = 0; each < loops.size(); ++each) {
    registrations_.push_back(registry_.add("loop " + std::to_string(each), loops[each]));
  }
  registrations_.push_back(registry_.add("pool", pool));
}

}  // namespace gyre::detail
