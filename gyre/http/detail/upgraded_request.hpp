// SPDX-License-Identifier: Apache-2.0
// upgraded_request: a request after another protocol has taken its connection over.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/ticks.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace gyre::http::detail {

struct server_route;

/// The request in the records that the server makes when the protocol has ended, by
/// exchange::conclude_upgraded(). It counts as work of the server until then.
struct upgraded_request {
  /// The parts for those who are told of a request: on_access(), on_error(), counts_routes.
  struct description {
    std::string head;
    steady_time begin{};
    std::uint64_t written = 0;  ///< bytes that the protocol has sent
  };

  server_route* route = nullptr;
  gyre::detail::tick_count begun = 0;  ///< in the flight recorder
  std::unique_ptr<description> described = {};
};

}  // namespace gyre::http::detail
