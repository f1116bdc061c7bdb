// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/service.hpp>

#include <gyre/engines/nats/client.hpp>
#include <gyre/engines/nats/detail/require_content.hpp>
#include <gyre/engines/nats/detail/service_core.hpp>
#include <gyre/metrics/exposition.hpp>

#include <utility>

namespace gyre::nats {
namespace {

detail::service_core& checked_core(const std::shared_ptr<detail::service_core>& core) {
  detail::require_content(core, "service");
  return *core;
}

}  // namespace

service::service(client& bus, service_config config)
    : core_(std::make_shared<detail::service_core>(bus.core(), std::move(config))) {
  core_->start();
}

service& service::operator=(service&& other) noexcept {
  service replacement(std::move(other));
  std::swap(core_, replacement.core_);
  return *this;
}

service& service::add_endpoint(std::string name, handler serve, endpoint_options options) {
  checked_core(core_).add_endpoint(std::move(name), std::move(serve), std::move(options));
  return *this;
}

task<> service::drain() {
  static_cast<void>(checked_core(core_));
  return detail::service_core::drain(core_);
}

void service::stop() noexcept {
  if (core_ != nullptr) core_->stop();
}

task<> service::wait() {
  static_cast<void>(checked_core(core_));
  return detail::service_core::wait(core_);
}

const std::string& service::id() const { return checked_core(core_).id(); }
service_info service::info() const { return checked_core(core_).info(); }
std::vector<endpoint_stats> service::stats() const { return checked_core(core_).stats(); }

void service::reset_stats() noexcept {
  if (core_ != nullptr) core_->reset_stats();
}

void write_metrics(metrics::exposition& output, const service& source) {
  for (const endpoint_stats& endpoint : source.stats()) write_metrics(output, endpoint);
}

}  // namespace gyre::nats
