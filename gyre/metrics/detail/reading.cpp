// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/detail/reading.hpp>

#include <gyre/metrics/exposition.hpp>

#include <atomic>

namespace gyre::metrics::detail {

reading::~reading() {
  if (collection_ == nullptr) return;
  // relaxed: the count orders nothing.
  if (is_counted_) executor_->pending_readings_.fetch_sub(1, std::memory_order_relaxed);
  collection_->end_part();
}

void reading::count() noexcept {
  executor_->pending_readings_.fetch_add(1, std::memory_order_relaxed);
  is_counted_ = true;
}

void reading::run() {
  const auto delay = gyre::detail::monotonic_now() - begin_;
  exposition samples(collection_->format());
  std::size_t failures = 0;
  for (const std::shared_ptr<source>& source : sources_) {
    if (source->is_executor()) source->record_response(delay);
    if (source->is_read_by_owner() && !source->read(samples)) ++failures;
  }
  collection_->store_part(part_, std::move(samples), failures);
}

}  // namespace gyre::metrics::detail
