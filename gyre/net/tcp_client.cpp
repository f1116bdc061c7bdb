// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_client.hpp>

#include <gyre/net/detail/client_core.hpp>

#include <utility>

namespace gyre::net {

tcp_client::tcp_client(event_loop& loop, tcp_client_options options)
    : core_(std::make_shared<core>(loop, std::move(options))) {}
tcp_client::~tcp_client() { detail::connection_group::abandon(core_); }

connection_handlers& tcp_client::settable_handlers() {
  core_->check_settable();
  return core_->client_handlers;
}
tcp_client& tcp_client::on_connect_failed(
    move_only_function<void(std::error_code, std::size_t, bool)> callback) {
  core_->check_settable();
  core_->connect_failed_handler = std::move(callback);
  return *this;
}

void tcp_client::connect(const endpoint& server) {
  core_->in_use.store(true, std::memory_order_relaxed);  // relaxed: see check_settable()
  if (core_->loop().in_loop_thread()) return core_->connect(server);
  core_->commands.connect([server](core& self) { self.connect(server); },
                          [this] { core_->post_commands(); });
}
void tcp_client::connect(resolver& names, std::string host, service port) {
  core_->in_use.store(true, std::memory_order_relaxed);  // relaxed: see check_settable()
  if (core_->loop().in_loop_thread()) return core_->connect(names, std::move(host), port);
  core_->commands.connect([names = &names, host = std::move(host), port](
                              core& self) mutable { self.connect(*names, std::move(host), port); },
                          [this] { core_->post_commands(); });
}
void tcp_client::disconnect() {
  if (core_->loop().in_loop_thread()) return core_->disconnect();
  core_->commands.disconnect([this] { core_->post_commands(); });
}

bool tcp_client::send(std::span<const std::byte> bytes) {
  if (core_->loop().in_loop_thread()) return core_->send(bytes);
  if (bytes.empty()) return true;
  std::optional<detail::byte_quota::share> share = core_->posted.take(bytes.size());
  if (!share) return false;
  io::buffer copy;
  copy.append(bytes);
  core_->commands.send(
      [copy = std::move(copy), held = std::move(*share)](core& self) { self.send(copy.bytes()); },
      [this] { core_->post_commands(); });
  return true;
}

tcp_connection* tcp_client::connection() noexcept { return core_->connection(); }
bool tcp_client::connected() const noexcept { return core_->connected(); }
event_loop& tcp_client::loop() const noexcept { return core_->loop(); }
const std::string& tcp_client::name() const noexcept { return core_->client_options.name; }
tcp_client_metrics tcp_client::metrics() const noexcept { return core_->metrics(); }

}  // namespace gyre::net
