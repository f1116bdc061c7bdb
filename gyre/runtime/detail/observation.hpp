// SPDX-License-Identifier: Apache-2.0
// observation: the registry of a runtime's metrics, and what shows it to operators.
#pragma once

#include <gyre/metrics/inspection.hpp>
#include <gyre/metrics/registration.hpp>
#include <gyre/metrics/registry.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/loop_pool.hpp>

#include <memory>
#include <vector>

namespace gyre::detail {

/// Thread-safety: registry() by any thread.
/// Lifetime: the loops and the pool must outlive it.
class observation {
 public:
  observation(loop_pool& loops, thread_pool& pool);

  metrics::registry& registry() noexcept { return registry_; }
  void show(metrics::inspection_factory& make) { inspection_ = make(registry_); }
  void hide() noexcept { inspection_.reset(); }

 private:
  metrics::registry registry_;
  std::vector<metrics::registration> registrations_;
  std::unique_ptr<metrics::inspection> inspection_;
};

}  // namespace gyre::detail
