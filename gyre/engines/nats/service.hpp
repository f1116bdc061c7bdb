// SPDX-License-Identifier: Apache-2.0
// service: requests of NATS that coroutines serve, on any number of machines.
//
//     gyre::nats::service orders(bus, {.name = "orders", .version = "1.0.0"});
//     orders.add_endpoint("price", [](const service_request& request) -> task<service_response> {
//       if (request.text().empty()) throw service_error(400, "name an item");
//       co_return co_await find_price(request.text());
//     });
//     co_await shutdown_requested();
//     co_await orders.drain();
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/engines/nats/service_config.hpp>
#include <gyre/engines/nats/service_error.hpp>
#include <gyre/engines/nats/service_info.hpp>
#include <gyre/engines/nats/service_request.hpp>
#include <gyre/task/task.hpp>

#include <memory>
#include <string>
#include <vector>

namespace gyre::nats {

class client;

namespace detail {
class service_core;
}  // namespace detail

/// An instance of a service. Each request goes to one of the instances, so that another machine, or
/// another loop of this one, adds capacity. Instances are found and watched by NATS' service
/// protocol ($SRV.PING, INFO and STATS), as `nats service` does.
///
/// A handler returns the reply. A service_error that it throws is replied with its code (headers
/// Nats-Service-Error-Code and Nats-Service-Error); another exception as 500, and its text is only
/// in the statistics. The handler's stop token, which reaches all that it awaits, asks it to stop
/// at the request's deadline, and when the service stops.
///
/// Promise: a request is served at most once, if its client does not repeat it. An instance that
/// dies does not reply; the client waits until its own time limit.
///
/// Thread-safety: the loop's thread; make a service, and a client, for each loop.
/// Lifetime: may outlive the client, whose close() ends it. The destructor is stop(); handlers that
/// it stops may outlive the service, but not the loop.
/// Errors: the constructor and add_endpoint() throw std::invalid_argument for names and limits that
/// make no sense, and the errors of client::subscribe().
/// Complexity: a request is three coroutine frames, those of the handler aside.
class service {
 public:
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  /// Makes the reply to a request, which exists until the task has ended.
  using handler = move_only_function<task<service_response>(const service_request&)>;

  /// Begins to reply to the service protocol. With GCC 12, `config` must not be made within an
  /// awaited expression.
  service(client& bus, service_config config);
  service(service&&) noexcept = default;
  service& operator=(service&& other) noexcept;
  ~service() { stop(); }

  /// Begins to serve the requests of an endpoint. `name`: letters, digits, '-' and '_'.
  service& add_endpoint(std::string name, handler serve, endpoint_options options = {});

  /// Ends in good order: takes no further requests, serves those that have come, and waits for the
  /// handlers. Handlers that have not ended after service_config::drain_timeout are asked to stop.
  /// Call it before the client's own drain() or close(), with which their replies would be lost.
  [[nodiscard]] task<> drain();
  /// Takes no further requests, drops those that wait, and asks the handlers to stop. Idempotent.
  void stop() noexcept;
  /// Waits until the service has ended and no handler runs. Throws the error with which a
  /// subscription has ended, such as nats::errc::permission_denied.
  [[nodiscard]] task<> wait();

  /// Distinguishes this instance from others.
  [[nodiscard]] const std::string& id() const;
  [[nodiscard]] service_info info() const;
  [[nodiscard]] std::vector<endpoint_stats> stats() const;
  /// Sets the counters of all endpoints to zero.
  void reset_stats() noexcept;

 private:
  std::shared_ptr<detail::service_core> core_;
};
/// Adds the counts of all endpoints to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const service& source);

}  // namespace gyre::nats
