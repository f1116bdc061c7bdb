// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/detail/source.hpp>

#include <utility>

namespace gyre::metrics::detail {

bool source::read(exposition& output) {
  const std::lock_guard lock(mutex_);
  if (is_removed_) return true;
  if (settings_.name.empty()) {
    output.set_common_labels({});
  } else {
    output.set_common_labels({{"name", settings_.name}});
  }
  try {
    settings_.write(output);
  } catch (...) {
    return false;
  }
  return true;
}

void source::remove() noexcept {
  move_only_function<void(exposition&)> old_function;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  is_removed_ = true;
  old_function = std::move(settings_.write);
}

void source::record_response(std::chrono::nanoseconds delay) {
  const std::lock_guard lock(mutex_);
  delays_.record(delay);
}

void source::write_responses(exposition& output, bool has_responded) {
  const std::lock_guard lock(mutex_);
  if (is_removed_) return;
  output.set_common_labels({{"name", settings_.name}});
  output.add_gauge("gyre_executor_up", "Whether the loop or pool has responded in time.",
                   has_responded ? 1 : 0);
  output.add_histogram("gyre_executor_response_seconds",
                       "Time from a post to its run, one for each reading of the metrics.",
                       delays_);
}

}  // namespace gyre::metrics::detail
