// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/shown_connections.hpp>

#include <gyre/http/detail/connection_listing.hpp>

namespace gyre::http {

void shown_connections::reset() noexcept {
  if (const auto listing = std::exchange(listing_, nullptr)) listing->remove(number_);
}

}  // namespace gyre::http
