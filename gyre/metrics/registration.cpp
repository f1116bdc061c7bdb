// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/registration.hpp>

#include <gyre/metrics/detail/registry_core.hpp>

namespace gyre::metrics {

registration::registration(std::shared_ptr<detail::registry_core> core,
                           std::uint64_t number) noexcept
    : core_(std::move(core)), number_(number) {}

void registration::reset() noexcept {
  if (const auto core = std::exchange(core_, nullptr)) core->remove(number_);
}

}  // namespace gyre::metrics
