// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_settings.hpp>

#include <atomic>

namespace gyre::http::detail {
namespace {

// Not inlined into a coroutine, which may continue on another thread.
[[gnu::noinline]] settings_pointer& last_settings() noexcept {
  static thread_local settings_pointer last;
  return last;
}

}  // namespace

settings_pointer::settings_pointer(const settings_pointer& other) noexcept
    : shared_(other.shared_) {
  // relaxed: the copied share keeps the settings alive.
  if (shared_ != nullptr) shared_->references.fetch_add(1, std::memory_order_relaxed);
}

settings_pointer::~settings_pointer() {
  if (shared_ == nullptr) return;
  // acq_rel: pairs with the release of other shares, whose reads come before the deletion.
  if (shared_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared_;
}

bool settings_pointer::has_values_of(const websocket_options& options) const noexcept {
  return shared_ != nullptr && shared_->limits == options.limits &&
         shared_->timeouts == options.timeouts;
}

settings_pointer settings_pointer::share(const websocket_options& options) {
  settings_pointer& last = last_settings();
  if (!last.has_values_of(options)) {
    settings_pointer fresh;
    fresh.shared_ = new websocket_settings{.limits = options.limits, .timeouts = options.timeouts};
    last = std::move(fresh);
  }
  return last;
}

}  // namespace gyre::http::detail
