// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/udp_server.hpp>

#include <gyre/net/detail/datagram_operations.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/udp_port.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace gyre::net {

namespace detail {

udp_port::udp_port(udp_server::core& whole, event_loop& loop, socket bound)
    : core_(whole), loop_(loop), bound_(std::move(bound)) {}

udp_port::registration::registration(udp_port& of, unique_fd fd)
    : descriptor(of.loop_, std::move(fd), io::handle_kind::socket),
      receiving(descriptor.handle(), of, &udp_port::on_received),
      sending(descriptor.handle(), of, &udp_port::on_sent),
      again(of.loop_, [&of] { of.receive(std::nullopt); }) {}

void udp_port::open() {
  if (stopping_) return;
  batch_.emplace(core_.options.batch, core_.options.max_datagram);
  open_.emplace(*this, bound_.release());
  receive(std::nullopt);
}

// --- Receiving ---

void udp_port::on_received(io::request& request, io::result result) {
  static_cast<receive_some&>(request).self->receive(result);
}

// Continues with `result`, until it must wait or others are to have their turn.
void udp_port::receive(std::optional<io::result> result) {
  using namespace std::chrono_literals;
  const callback_gate::pass passing(gate_);
  if (!passing) return;
  if (delivered_ < batch_->size() && !deliver_batch()) return;
  for (int batches = 0; batches < most_batches; ++batches) {
    if (!result) {
      open_->receiving.messages = batch_->prepare_to_receive();
      result = open_->descriptor.start(open_->receiving);
      if (!result) return;
    }
    if (!*result) {
      errors_.add(1);
      return open_->again.start_after(1ms);
    }
    batch_->received(result->count());
    delivered_ = 0;
    if (!deliver_batch()) return;
    result.reset();
  }
  open_->again.start_after(0ns);
}

// Whether to continue. After an exception, which goes to the loop, the next turn delivers the rest.
bool udp_port::deliver_batch() {
  const auto end = [this] {
    delivering_ = false;
    if (open_) flush();
    return open_ && !stopping_;
  };
  delivering_ = true;
  try {
    deliver_rest();
  } catch (...) {
    if (end()) open_->again.start_after({});
    throw;
  }
  return end();
}

void udp_port::deliver_rest() {
  while (delivered_ < batch_->size()) {
    const datagram each = (*batch_)[delivered_++];
    if (each.truncated) {
      truncated_.add(1);
      continue;
    }
    received_.add(1);
    bytes_received_.add(each.bytes.size());
    if (core_.received) core_.received(*this, each.bytes, each.peer);
    if (!open_ || stopping_ || !gate_.is_open()) return;
  }
}

// --- Sending ---

bool udp_port::send_to(std::span<const std::byte> bytes, const endpoint& to) {
  if (!open_ || stopping_) return false;
  const std::size_t waiting = filling_.memory() + draining_.memory() + sizeof(replies::reply);
  const std::size_t limit = core_.options.output_limit;
  if (bytes.size() > limit || waiting > limit - bytes.size()) {
    refused_.add(1);
    return false;
  }
  filling_.add(bytes, to);
  if (!delivering_ || filling_.each.size() >= most_sent) flush();
  return true;
}

void udp_port::flush() noexcept {
  while (!open_->sending.under_way()) {
    if (draining_.done()) {
      draining_.clear();
      if (filling_.each.empty()) return;
      std::swap(draining_, filling_);
    }
    const std::span<mmsghdr> unsent = describe_unsent();
    if (draining_.next().to.is_unix()) {
      sent(send_without_waiting(fd(), unsent));
      continue;
    }
    open_->sending.messages = unsent;
    const std::optional<io::result> result = open_->descriptor.start(open_->sending);
    if (result) sent(*result);
  }
}

std::span<mmsghdr> udp_port::describe_unsent() noexcept {
  const auto unsent = std::span(draining_.each).subspan(draining_.sent);
  const std::size_t count = std::min(unsent.size(), most_sent);
  for (std::size_t i = 0; i < count; ++i) {
    replies::reply& reply = unsent[i];
    pieces_[i] = {draining_.bytes.data() + reply.offset, reply.size};
    set_message(messages_[i].msg_hdr, pieces_[i], reply.to, reply.to.size());
    write_control(messages_[i].msg_hdr, controls_[i], reply.to);
  }
  return std::span(messages_).first(count);
}

void udp_port::on_sent(io::request& request, io::result result) {
  udp_port& self = *static_cast<send_some&>(request).self;
  const callback_gate::pass passing(self.gate_);
  if (!passing) return;
  self.sent(result);
  self.flush();
  if (self.stopping_) self.close_when_done();
}

// An error is that of the first one that has not been sent.
void udp_port::sent(io::result result) noexcept {
  if (!result) {
    (result.would_block() ? refused_ : errors_).add(1);
    ++draining_.sent;
    return;
  }
  for (std::size_t i = 0; i < result.count(); ++i) {
    bytes_sent_.add(draining_.each[draining_.sent++].size);
  }
  sent_.add(result.count());
}

// --- Ending ---

void udp_port::stop() {
  if (std::exchange(stopping_, true)) return;
  if (open_) {
    open_->descriptor.cancel(open_->receiving);
    open_->again.cancel();
    flush();
  }
  close_when_done();
}

void udp_port::close_when_done() {
  if (open_ && open_->sending.under_way()) return;
  close();
  core_.port_stopped();
}

void udp_port::close() noexcept {
  open_.reset();
  bound_.close();
}

void udp_port::abandon(std::shared_ptr<udp_port> port) noexcept {
  udp_port& abandoned = *port;
  const bool here = abandoned.loop_.in_loop_thread();
  abandoned.gate_.close(here);
  if (here) abandoned.close();
  abandoned.release_.post(abandoned.loop_, std::move(port));
}

void udp_port::add_to(udp_server_metrics& sum) const noexcept {
  sum.received += received_.get();
  sum.sent += sent_.get();
  sum.bytes_received += bytes_received_.get();
  sum.bytes_sent += bytes_sent_.get();
  sum.truncated += truncated_.get();
  sum.refused += refused_.get();
  sum.errors += errors_.get();
}

}  // namespace detail

// --- What all loops share ---

udp_server::core::core(std::vector<event_loop*> loops, udp_server_options settings)
    : options(std::move(settings)), loops_(std::move(loops)) {
  detail::require_loops(loops_, "gyre::net::udp_server");
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
  if (started_) throw std::logic_error("gyre::net::udp_server: functions are set before start()");
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
    if (options.packet_info) detail::note_sources(opened, bound);
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
  if (done && ports_running_ > 0) {
    when_stopped_.push_back(std::move(done));
  } else if (done) {
    post_done(std::move(done));
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

// Each in a task of its own: if one throws, or destroys the server, the others do not suffer.
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
