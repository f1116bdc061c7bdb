// SPDX-License-Identifier: Apache-2.0
// call_service: a request to a service, whose errors are thrown. find_services: the instances that
// reply.
//
//     auto price = co_await gyre::nats::call_service(bus, "price", "tea", {.timeout = 10s});
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/service_error.hpp>
#include <gyre/engines/nats/service_info.hpp>

#include <chrono>
#include <cstddef>
#include <string_view>
#include <vector>

namespace gyre::nats {

/// Sends a request to a service, with the time that remains for it (header Gyre-Timeout, in
/// milliseconds), so that the service's handler does not continue after the caller has given up.
///
/// Lifetime: the arguments must outlive the await.
/// Errors: service_error for a reply with Nats-Service-Error-Code; those of client::request().
[[nodiscard]] task<message> call_service(client& bus, std::string_view subject,
                                         payload_view payload, request_options options = {});

/// Settings of find_services().
struct find_options {
  /// The wait for replies: all instances reply, and their number is not known.
  duration wait = std::chrono::seconds{1};
  /// Ends the wait earlier, once so many instances have replied.
  std::size_t max_instances = 1000;
};

/// Finds the instances of all services, or of those of one name, by $SRV.INFO. Replies that do not
/// follow the service protocol are left out. The result is empty if nobody replies.
///
/// Lifetime: the arguments must outlive the await.
/// Errors: those of client::publish(); std::invalid_argument for an invalid name.
[[nodiscard]] task<std::vector<service_info>> find_services(client& bus, std::string_view name = {},
                                                            find_options options = {});

}  // namespace gyre::nats
