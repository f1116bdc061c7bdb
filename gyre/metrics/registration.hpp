// SPDX-License-Identifier: Apache-2.0
// registration: the owner of an object's entry in a registry of metrics.
//
//     gyre::loop loop;
//     const gyre::metrics::registration counted = metrics.add("network", loop);
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace gyre::metrics {

namespace detail {
class registry_core;
}  // namespace detail

/// Removes an object from its registry when it is destroyed. Declare it after the object, so that
/// it is destroyed first.
///
/// Thread-safety: none, but any thread may destroy it. The destructor waits while another thread
/// reads the object, some microseconds, so the object may be destroyed afterwards.
/// Lifetime: may outlive the registry. Must not be destroyed by the function that it registers.
class [[nodiscard]] registration {
 public:
  registration() noexcept = default;
  registration(registration&& other) noexcept
      : core_(std::move(other.core_)), number_(std::exchange(other.number_, 0)) {}
  registration& operator=(registration&& other) noexcept {
    if (this != &other) {
      reset();
      core_ = std::move(other.core_);
      number_ = std::exchange(other.number_, 0);
    }
    return *this;
  }
  ~registration() { reset(); }

  /// Removes the object. Idempotent.
  void reset() noexcept;

 private:
  friend class registry;
  registration(std::shared_ptr<detail::registry_core> core, std::uint64_t number) noexcept;

  std::shared_ptr<detail::registry_core> core_;
  std::uint64_t number_ = 0;
};

}  // namespace gyre::metrics
