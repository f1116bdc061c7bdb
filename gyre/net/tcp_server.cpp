// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_server.hpp>

#include <gyre/net/detail/server_core.hpp>

#include <memory>
#include <utility>

namespace gyre::net {

tcp_server::tcp_server(event_loop& loop, tcp_server_options options)
    : tcp_server(std::vector<event_loop*>{&loop}, std::move(options)) {}
tcp_server::tcp_server(std::vector<event_loop*> loops, tcp_server_options options)
    : core_(std::make_shared<detail::server_core>(loops, std::move(options))) {}
tcp_server::~tcp_server() { core_->abandon(); }

connection_handlers& tcp_server::settable_handlers() { return core_->settable_handlers(); }
tcp_server& tcp_server::on_accept_error(move_only_function<void(std::error_code)> callback) {
  core_->settable_handlers().accept_error = std::move(callback);
  return *this;
}

tcp_server& tcp_server::on_stopping(move_only_function<void(tcp_connection&)> callback) {
  core_->settable_handlers().stopping = std::move(callback);
  return *this;
}

void tcp_server::listen(const endpoint& local) { core_->listen(local); }
void tcp_server::listen(socket listener) {
  std::vector<socket> sockets;
  sockets.push_back(std::move(listener));
  core_->listen(std::move(sockets));
}
void tcp_server::listen(std::vector<socket> listeners) { core_->listen(std::move(listeners)); }
endpoint tcp_server::local_endpoint(std::size_t index) const {
  return core_->local_endpoint(index);
}
void tcp_server::start() { core_->start(); }
void tcp_server::adopt(unique_fd connection) { core_->adopt(std::move(connection)); }
void tcp_server::adopt(unique_fd connection, const endpoint& peer) {
  core_->adopt(std::move(connection), peer);
}
void tcp_server::adopt(released_connection connection) { core_->adopt(std::move(connection)); }
void tcp_server::pause_accepting() { core_->set_hold(detail::server_core::hold::paused, true); }
void tcp_server::resume_accepting() { core_->set_hold(detail::server_core::hold::paused, false); }

void tcp_server::stop(duration timeout, move_only_function<void()> callback) {
  core_->stop(timeout, std::move(callback));
}
void tcp_server::stop(time_point deadline, move_only_function<void()> callback) {
  core_->stop(deadline, std::move(callback));
}

bool tcp_server::for_each(std::function<void(tcp_connection&)> function) {
  return core_->for_each(std::move(function));
}
bool tcp_server::broadcast(std::span<const std::byte> bytes) { return core_->broadcast(bytes); }

const std::string& tcp_server::name() const noexcept { return core_->options.name; }
tcp_server_metrics tcp_server::metrics() const noexcept { return core_->metrics(); }

}  // namespace gyre::net
