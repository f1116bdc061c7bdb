// SPDX-License-Identifier: Apache-2.0
#include <gyre/runtime/shutdown.hpp>

#include <gyre/runtime/detail/shutdown_sequence.hpp>

namespace gyre {

void shutdown_step::end_step::operator()(detail::shutdown_sequence* sequence) const noexcept {
  sequence->end_step();
}

void shutdown_hook::reset() noexcept {
  if (const auto entry = std::exchange(entry_, nullptr)) entry->unregister();
}

}  // namespace gyre
