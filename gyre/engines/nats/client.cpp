// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/client.hpp>

#include <gyre/engines/nats/detail/client_core.hpp>

namespace gyre::nats {

using detail::client_core;

client::client(event_loop& loop, const std::vector<std::string>& servers,
               const client_options& options)
    : core_(std::make_shared<client_core>(loop, servers, options)) {}

client& client::operator=(client&& other) noexcept {
  client replacement(std::move(other));
  std::swap(core_, replacement.core_);
  return *this;
}

task<> client::connect() { return client_core::connect(core_); }

task<> client::publish(std::string_view subject, payload_view payload, publish_options options) {
  return client_core::publish(core_, subject, payload, options);
}

bool client::try_publish(std::string_view subject, payload_view payload,
                         const publish_options& options) {
  return client_core::try_publish(core_, subject, payload, options);
}

task<> client::flush() { return client_core::flush(core_); }

subscription client::subscribe(std::string subject, subscription_options options) {
  return client_core::subscribe(core_, std::move(subject), std::move(options));
}

task<message> client::request(std::string_view subject, payload_view payload,
                              request_options options) {
  return client_core::request(core_, subject, payload, options);
}

std::string client::new_inbox() { return client_core::of(core_).new_inbox(); }

task<> client::drain() { return client_core::drain(core_); }

void client::close() noexcept {
  if (core_ != nullptr) core_->close();
}

client& client::on_notice(move_only_function<void(notice, std::string_view)> handler) {
  client_core::of(core_).set_notice_handler(std::move(handler));
  return *this;
}

bool client::is_connected() const noexcept { return core_ != nullptr && core_->is_ready(); }

server_info client::server() const { return client_core::of(core_).server(); }

client_metrics client::metrics() const noexcept {
  return core_ != nullptr ? core_->metrics() : client_metrics();
}

}  // namespace gyre::nats
