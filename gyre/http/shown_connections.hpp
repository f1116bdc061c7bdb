// SPDX-License-Identifier: Apache-2.0
// shown_connections: the owner of a server's entry in an inspector.
//
//     const auto shown = inspector.show_connections("shop", server.tcp());
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace gyre::http {

namespace detail {
class connection_listing;
}  // namespace detail

/// Ends the showing of a server's connections when it is destroyed. Declare it after the server.
///
/// Thread-safety: none, but any thread may destroy it.
/// Lifetime: may outlive the inspector, but not the server.
class [[nodiscard]] shown_connections {
 public:
  shown_connections() noexcept = default;
  /// Called by an inspector.
  shown_connections(std::shared_ptr<detail::connection_listing> listing,
                    std::uint64_t number) noexcept
      : listing_(std::move(listing)), number_(number) {}
  shown_connections(shown_connections&& other) noexcept
      : listing_(std::move(other.listing_)), number_(std::exchange(other.number_, 0)) {}
  shown_connections& operator=(shown_connections&& other) noexcept {
    if (this != &other) {
      reset();
      listing_ = std::move(other.listing_);
      number_ = std::exchange(other.number_, 0);
    }
    return *this;
  }
  ~shown_connections() { reset(); }

  /// Ends the showing. Idempotent.
  void reset() noexcept;

 private:
  std::shared_ptr<detail::connection_listing> listing_;
  std::uint64_t number_ = 0;
};

}  // namespace gyre::http
