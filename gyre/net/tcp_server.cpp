// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_server.hpp>

#include <gyre/net/detail/server_core.hpp>

#include <utility>

namespace gyre::net {

tcp_server::tcp_server(event_loop& loop, tcp_server_options options)
    : tcp_server(std::vector<event_loop*>{&loop}, std::move(options)) {}
tcp_server::tcp_server(std::vector<event_loop*> loops, tcp_server_options options)
    : core_(std::make_shared<core>(loops, std::move(options))) {}
tcp_server::~tcp_server() { core_->abandon(); }

tcp_server& tcp_server::on_connection(move_only_function<void(tcp_connection&)> callback) {
  core_->settable_handlers().connected = std::move(callback);
  return *this;
}
tcp_server& tcp_server::on_message(move_only_function<void(tcp_connection&, io::input&)> callback) {
  core_->settable_handlers().message = std::move(callback);
  return *this;
}
tcp_server& tcp_server::on_write_complete(move_only_function<void(tcp_connection&)> callback) {
  core_->settable_handlers().write_complete = std::move(callback);
  return *this;
}
tcp_server& tcp_server::on_high_water(
    move_only_function<void(tcp_connection&, std::size_t)> callback) {
  core_->settable_handlers().high_water = std::move(callback);
  return *this;
}
tcp_server& tcp_server::on_low_water(move_only_function<void(tcp_connection&)> callback) {
  core_->settable_handlers().low_water = std::move(callback);
  return *this;
}
tcp_server& tcp_server::on_peer_ended(move_only_function<void(tcp_connection&)> callback) {
  core_->settable_handlers().peer_ended = std::move(callback);
  return *this;
}
tcp_server& tcp_server::on_close(
    move_only_function<void(tcp_connection&, std::error_code)> callback) {
  core_->settable_handlers().closed = std::move(callback);
  return *this;
}
tcp_server& tcp_server::on_accept_error(move_only_function<void(std::error_code)> callback) {
  core_->settable_handlers().accept_error = std::move(callback);
  return *this;
}

void tcp_server::listen(const endpoint& at) { core_->listen(at); }
void tcp_server::listen(socket listening) {
  std::vector<socket> one;
  one.push_back(std::move(listening));
  core_->listen(std::move(one));
}
void tcp_server::listen(std::vector<socket> listening) { core_->listen(std::move(listening)); }
endpoint tcp_server::local_endpoint(std::size_t index) const {
  return core_->local_endpoint(index);
}
void tcp_server::start() { core_->start(); }
void tcp_server::adopt(unique_fd connection) { core_->adopt(std::move(connection)); }
void tcp_server::pause_accepting() { core_->hold(detail::acceptor::paused, true); }
void tcp_server::resume_accepting() { core_->hold(detail::acceptor::paused, false); }

void tcp_server::stop(std::chrono::nanoseconds timeout, move_only_function<void()> done) {
  core_->stop(timeout, std::move(done));
}
void tcp_server::stop(steady_time deadline, move_only_function<void()> done) {
  core_->stop(deadline, std::move(done));
}

bool tcp_server::for_each(std::function<void(tcp_connection&)> function) {
  return core_->for_each(std::move(function));
}

bool tcp_server::broadcast(std::span<const std::byte> bytes) { return core_->broadcast(bytes); }

const std::string& tcp_server::name() const noexcept { return core_->options.name; }
tcp_server_metrics tcp_server::metrics() const noexcept { return core_->metrics(); }

}  // namespace gyre::net
