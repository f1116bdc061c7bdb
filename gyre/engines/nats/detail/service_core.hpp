// SPDX-License-Identifier: Apache-2.0
// service_core: the endpoints of a service, and the requests that they serve.
//
// A coroutine for each subscription takes its requests, and one for each request serves it. These
// workers keep the core; the service has ended when none is left.
//
// | state    | a request comes | drain()  | stop()   | the last worker ends |
// |----------|-----------------|----------|----------|----------------------|
// | serving  | is served       | draining | stopped  | ended                |
// | draining | is served       | -        | stopped  | ended                |
// | stopped  | -               | -        | -        | ended                |
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/engines/nats/detail/client_core.hpp>
#include <gyre/engines/nats/detail/timestamp.hpp>
#include <gyre/engines/nats/headers.hpp>
#include <gyre/engines/nats/message.hpp>
#include <gyre/engines/nats/service.hpp>
#include <gyre/engines/nats/service_config.hpp>
#include <gyre/engines/nats/service_info.hpp>
#include <gyre/engines/nats/service_request.hpp>
#include <gyre/engines/nats/subscription.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::nats::detail {

/// The header in which a client tells the time that remains for its request, in milliseconds.
inline constexpr std::string_view timeout_header = "Gyre-Timeout";
inline constexpr std::string_view error_header = "Nats-Service-Error";
inline constexpr std::string_view error_code_header = "Nats-Service-Error-Code";

/// Throws std::invalid_argument unless `name` is a valid name of a service or of an endpoint.
void check_service_name(std::string_view name);

/// Thread-safety: the loop's thread.
class service_core : public std::enable_shared_from_this<service_core> {
 public:
  using handler = service::handler;

  service_core(std::shared_ptr<client_core> client, service_config config);

  /// Begins to reply to the service protocol.
  void start();
  void add_endpoint(std::string name, handler serve, endpoint_options options);
  static task<> drain(std::shared_ptr<service_core> self);
  void stop() noexcept;
  static task<> wait(std::shared_ptr<service_core> self);

  const std::string& id() const noexcept { return info_.id; }
  const service_info& info() const noexcept { return info_; }
  std::vector<endpoint_stats> stats() const;
  void reset_stats() noexcept;

 private:
  struct endpoint {
    endpoint(handler function, endpoint_options settings)
        : serve(std::move(function)), options(std::move(settings)), slots(options.max_concurrent) {}

    handler serve;
    endpoint_options options;
    semaphore slots;
    subscription arrivals;
    endpoint_stats stats;
    std::size_t open = 0;        // the number of requests that run or wait
    std::size_t open_bytes = 0;  // the bytes of their payloads and headers
  };
  enum class verb : unsigned char { ping, info, stats };
  struct discovery {
    verb kind;
    subscription arrivals;
  };
  /// A reply to be sent.
  struct reply {
    std::string text;
    nats::headers headers;
  };
  /// Keeps the service, and counts a coroutine that works for it.
  class worker {
   public:
    explicit worker(std::shared_ptr<service_core> core) noexcept : core_(std::move(core)) {
      ++core_->workers_;
    }
    worker(worker&& other) noexcept = default;
    worker& operator=(worker&&) = delete;
    ~worker() {
      if (core_ != nullptr && --core_->workers_ == 0) core_->end_event_.set();
    }

    service_core* operator->() const noexcept { return core_.get(); }

   private:
    std::shared_ptr<service_core> core_;
  };

  worker new_worker() { return worker(shared_from_this()); }
  /// Starts a coroutine, whose error ends the service.
  void start(task<> work);
  static task<> receive_requests(worker self, endpoint& target);
  static task<> serve_discovery(worker self, discovery& source);
  static task<> serve_request(worker self, endpoint& target, message content, steady_time deadline);
  static task<reply> run_handler(endpoint& target, const service_request& request);
  /// Sends a reply, or an error instead if it is too large.
  task<> publish_reply(endpoint& target, std::string_view subject, reply content);
  void admit_request(endpoint& target, message&& content);
  reply make_refusal(endpoint& target, int code, std::string_view text);
  steady_time deadline_of(const endpoint& target, const message& content) const noexcept;
  std::string discovery_reply(verb request) const;
  void fail(std::exception_ptr error) noexcept;

  const std::shared_ptr<client_core> client_;
  const service_config config_;
  service_info info_;
  timestamp start_time_;
  std::list<endpoint> endpoints_;
  std::list<discovery> discoveries_;
  inplace_stop_source stop_;
  bool is_closed_ = false;  // whether drain() or stop() was called
  std::size_t workers_ = 0;
  std::exception_ptr failure_;
  manual_reset_event end_event_;
};

}  // namespace gyre::nats::detail
