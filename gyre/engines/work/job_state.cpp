// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/job_state.hpp>

namespace gyre::work {

std::string_view name_of(job_state state) noexcept {
  switch (state) {
    case job_state::scheduled: return "scheduled";
    case job_state::ready: return "ready";
    case job_state::running: return "running";
    case job_state::finished: return "finished";
    case job_state::dead: return "dead";
    case job_state::cancelled: return "cancelled";
  }
  return "unknown";
}

}  // namespace gyre::work
