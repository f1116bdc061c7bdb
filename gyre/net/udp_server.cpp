// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/udp_server.hpp>

#include <gyre/net/detail/bind_listener.hpp>
#include <gyre/net/detail/udp_port.hpp>

#include <mutex>
#include <stdexcept>
#include <utility>

namespace gyre::net {

// --- What all loops share ---

udp_server::core::core(std::vector<event_loop*> loops, udp_server_options settings)
    : options(std::move(settings)), loops_(std::move(loops)) {
  if (loops_.empty())
    throw std::invalid_argument("gyre::net::udp_server: at least one loop is needed");
  for (event_loop* loop : loops_) static_cast<void>(io::backend_of(*loop));  // which may throw
}

template <class Function>
void udp_server::core::post(detail::udp_port& part, Function function) {
  part.loop().post([port = shared(part), function] {
    const detail::callback_gate::pass passing(port->gate());
    if (passing) function(*port);
  });
}

void udp_server::core::on_datagram(datagram_function callback) {
  const std::lock_guard lock(mutex_);
  if (started_) {
    throw std::logic_error("gyre::net::udp_server: functions are set before start()");
  }
  received = std::move(callback);
}

void udp_server::core::listen(const endpoint& at) {
  endpoint bound = at;
  std::vector<std::unique_ptr<detail::udp_port>> added;
  for (event_loop* loop : loops_) {
    socket opened = socket::open(at.family(), socket_type::datagram);
    if (at.is_ip()) {
      if (options.reuse_address) opened.set_reuse_address(true);
      if (loops_.size() > 1) opened.set_reuse_port(true);
      if (at.family() == address_family::ipv6) opened.set_v6_only(options.ipv6_only);
    }
    if (options.receive_buffer > 0) {
      opened.set_receive_buffer(static_cast<std::size_t>(options.receive_buffer));
    }
    if (options.send_buffer > 0) {
      opened.set_send_buffer(static_cast<std::size_t>(options.send_buffer));
    }
    detail::bind_listener(opened, bound, true);
    bound = opened.local_endpoint();  // the others get the port of the first
    added.push_back(std::make_unique<detail::udp_port>(*this, *loop, std::move(opened)));
    if (at.is_unix()) break;
  }
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  endpoints_.push_back(bound);
  for (auto& each : added) {
    detail::udp_port& port = *ports_.emplace_back(std::move(each));
    ++ports_running_;
    if (started_) post(port, [](detail::udp_port& opened) { opened.open(); });
  }
}

endpoint udp_server::core::local_endpoint(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  if (index >= endpoints_.size()) {
    throw std::out_of_range("gyre::net::udp_server::local_endpoint: before that listen()");
  }
  return endpoints_[index];
}

void udp_server::core::start() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(started_, true)) throw std::logic_error("gyre::net::udp_server: started twice");
  for (auto& each : ports_) post(*each, [](detail::udp_port& port) { port.open(); });
}

void udp_server::core::stop(move_only_function<void()> done) {
  const std::lock_guard lock(mutex_);
  if (done) {
    if (ports_running_ > 0) {
      when_stopped_.push_back(std::move(done));
    } else {
      post_done(std::move(done));
    }
  }
  if (std::exchange(stopping_, true)) return;
  for (auto& each : ports_) post(*each, [](detail::udp_port& port) { port.stop(); });
}

void udp_server::core::port_stopped() {
  std::vector<move_only_function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (--ports_running_ > 0) return;
    callbacks.swap(when_stopped_);
  }
  for (auto& each : callbacks) post_done(std::move(each));
}

// Each in a task of its own: an exception of one, or its destroying the server, does not concern
// the others.
void udp_server::core::post_done(move_only_function<void()> done) {
  loops_.front()->post([self = shared_from_this(), done = std::move(done)]() mutable {
    const detail::callback_gate::pass passing(self->gate_);
    if (passing) done();
  });
}

void udp_server::core::abandon() noexcept {
  const auto port = [this](std::size_t index) -> detail::udp_port* {
    const std::lock_guard lock(mutex_);
    return index < ports_.size() ? ports_[index].get() : nullptr;
  };
  // Without the mutex: it may have to wait for a handler, which may ask for the metrics.
  for (std::size_t i = 0; detail::udp_port* const each = port(i); ++i) {
    detail::udp_port::abandon(shared(*each));
  }
  gate_.close(loops_.front()->in_loop_thread());
}

udp_server_metrics udp_server::core::metrics() const {
  const std::lock_guard lock(mutex_);
  udp_server_metrics sum;
  for (const auto& each : ports_) each->add_to(sum);
  return sum;
}

// --- The server ---

udp_server::udp_server(event_loop& loop, udp_server_options options)
    : udp_server(std::vector<event_loop*>{&loop}, std::move(options)) {}
udp_server::udp_server(std::vector<event_loop*> loops, udp_server_options options)
    : core_(std::make_shared<core>(std::move(loops), std::move(options))) {}
udp_server::~udp_server() { core_->abandon(); }

udp_server& udp_server::on_datagram(datagram_function callback) {
  core_->on_datagram(std::move(callback));
  return *this;
}

void udp_server::listen(const endpoint& at) { core_->listen(at); }
endpoint udp_server::local_endpoint(std::size_t index) const {
  return core_->local_endpoint(index);
}
void udp_server::start() { core_->start(); }
void udp_server::stop(move_only_function<void()> done) { core_->stop(std::move(done)); }
const std::string& udp_server::name() const noexcept { return core_->options.name; }
udp_server_metrics udp_server::metrics() const noexcept { return core_->metrics(); }

bool udp_server::channel::send_to(std::span<const std::byte> bytes, const endpoint& to) {
  return static_cast<detail::udp_port*>(this)->send_to(bytes, to);
}
event_loop& udp_server::channel::loop() const noexcept {
  return static_cast<const detail::udp_port*>(this)->loop();
}
int udp_server::channel::fd() const noexcept {
  return static_cast<const detail::udp_port*>(this)->fd();
}
endpoint udp_server::channel::local_endpoint() const { return socket_ref(fd()).local_endpoint(); }

}  // namespace gyre::net
