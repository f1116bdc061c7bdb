// SPDX-License-Identifier: Apache-2.0
// service_config, endpoint_options: the settings of a service.
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace gyre::nats {

/// Settings of a service.
struct service_config {
  /// The kind of service, which all its instances share: letters, digits, '-' and '_'.
  std::string name = {};
  /// The version by the rules of semantic versioning, such as "1.4.2".
  std::string version = {};
  /// A text for people, which the service shows to those who ask for its information.
  std::string description = {};
  /// Pairs for the user, which the service shows beside its description.
  std::map<std::string, std::string> metadata = {};
  /// Each request goes to one of the instances that share a queue group.
  std::string queue_group = "q";
  /// The time in which drain() lets handlers end, before it asks them to stop.
  duration drain_timeout = std::chrono::seconds{30};
};

/// Settings of an endpoint.
struct endpoint_options {
  /// The subject, such as "clock.now.*"; empty: the endpoint's name.
  std::string subject = {};
  /// The queue group; empty: that of the service.
  std::string queue_group = {};
  /// Whether each instance gets each request.
  bool has_no_queue_group = false;
  /// Pairs for the user, which the service shows with the endpoint.
  std::map<std::string, std::string> metadata = {};
  /// The number of handlers that run at the same time; at least 1.
  std::size_t max_concurrent = 64;
  /// The number of requests that wait for a handler. A further one gets service_error 503 at once,
  /// so that its client can try another instance.
  std::size_t max_waiting = 1024;
  /// The bytes of payloads and headers of requests that run or wait; beyond them none may wait.
  std::size_t max_bytes = std::size_t{64} << 20;
  /// Limit of each request, its wait for a handler included. The handler is then asked to stop, and
  /// the reply is service_error 504.
  duration timeout = std::chrono::seconds{30};
};

}  // namespace gyre::nats
