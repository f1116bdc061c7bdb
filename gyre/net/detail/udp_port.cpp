// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/udp_port.hpp>

#include <gyre/net/detail/datagram_operations.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gyre::net::detail {

udp_port::udp_port(udp_server::core& whole, event_loop& loop, socket bound)
    : core_(whole), loop_(loop), bound_(std::move(bound)) {}

udp_port::registration::registration(udp_port& of, unique_fd fd)
    : descriptor(of.loop_, std::move(fd), io::handle_kind::socket),
      receiving(descriptor.handle(), of),
      sending(descriptor.handle(), of),
      again(of.loop_, [&of] { of.receive(std::nullopt); }) {}

void udp_port::replies::add(std::span<const std::byte> added, const endpoint& to) {
  const std::size_t offset = bytes.size();
  bytes.insert(bytes.end(), added.begin(), added.end());
  try {
    each.push_back({offset, added.size(), to});
  } catch (...) {
    bytes.resize(offset);
    throw;
  }
}

void udp_port::replies::clear() noexcept {
  bytes.clear();
  each.clear();
  sent = 0;
}

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
    const bool failed = !*result;
    if (!deliver(*std::exchange(result, std::nullopt))) return;
    if (failed) return open_->again.start_after(1ms);
  }
  open_->again.start_after(0ns);
}

// Whether to continue.
bool udp_port::deliver(io::result result) {
  if (!result) {
    errors_.add(1);
    return true;
  }
  batch_->received(result.count());
  delivered_ = 0;
  return deliver_batch();
}

// An exception of the function goes to the loop; the rest of the batch comes in its next turn.
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

}  // namespace gyre::net::detail
