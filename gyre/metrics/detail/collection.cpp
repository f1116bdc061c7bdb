// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/detail/collection.hpp>

#include <utility>

namespace gyre::metrics::detail {

std::size_t collection::begin_part() {
  const std::lock_guard lock(mutex_);
  parts_.emplace_back();
  ++running_parts_;
  return parts_.size() - 1;
}

void collection::store_part(std::size_t number, exposition samples, std::size_t failures) {
  const std::lock_guard lock(mutex_);
  if (!was_taken_) parts_[number].emplace(std::move(samples), failures);
}

void collection::end_part() noexcept {
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    is_last = --running_parts_ == 0;
  }
  if (is_last) completion_event_.set();
}

bool collection::close_list() noexcept {
  end_part();
  return completion_event_.is_set();
}

std::vector<std::optional<collection::part>> collection::take_parts() noexcept {
  const std::lock_guard lock(mutex_);
  was_taken_ = true;
  return std::move(parts_);
}

}  // namespace gyre::metrics::detail
