// SPDX-License-Identifier: Apache-2.0
// A connection's calls from the loop, beginning and end; tcp_connection_output.cpp sends.
#include <gyre/net/tcp_connection.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/socket.hpp>

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gyre::net {

tcp_connection::tcp_connection(detail::connection_group& group, int fd, std::uint64_t id,
                               const endpoint& peer)
    // On a Unix socket, recv stops behind bytes that came with descriptors.
    : io::handle(fd, peer.is_ip() ? io::handle_kind::stream_socket : io::handle_kind::socket),
      group_(&group),
      receiving_(*this, &on_done<&tcp_connection::received>, io::repeat::until_cancelled),
      id_(id),
      peer_address_(peer.is_ip() ? peer.address() : ip_address()),
      peer_port_(peer.port()),
      peer_is_ip_(peer.is_ip()) {
  static_assert(sizeof(tcp_connection) == 256 && alignof(tcp_connection) == 64);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // which both compilers support here
  static_assert(
      offsetof(tcp_connection, receiving_) == 64 && offsetof(tcp_connection, group_node_) == 128,
      "what a message touches is in front, in two lines of the cache");
#pragma GCC diagnostic pop
}

tcp_connection::~tcp_connection() {
  if (control_ != nullptr) {
    control_->connection = nullptr;
    control_->drop();
  }
  delete extra_;
}

event_loop& tcp_connection::loop() const noexcept { return group_->loop(); }
io::backend& tcp_connection::io() const noexcept { return group_->io(); }

endpoint tcp_connection::peer_endpoint() const {
  if (peer_is_ip_) return endpoint(peer_address_, peer_port_);
  return is_open() ? socket_ref(handle::fd()).peer_endpoint() : endpoint();
}
endpoint tcp_connection::local_endpoint() const {
  return is_open() ? socket_ref(handle::fd()).local_endpoint() : endpoint();
}

template <void (tcp_connection::*Expired)()>
void tcp_connection::on_timer(timer_operation& timer) {
  tcp_connection& self = *static_cast<detail::progress_timer&>(timer).self;
  self.from_loop([&self] { (self.*Expired)(); });
}

detail::connection_extra::connection_extra(tcp_connection& owner) noexcept
    : writing(owner, {}, &tcp_connection::on_done<&tcp_connection::written>),
      timer(owner, &tcp_connection::on_timer<&tcp_connection::timer_expired>),
      message_timer(owner, &tcp_connection::on_timer<&tcp_connection::message_timer_expired>),
      write_timer(owner, &tcp_connection::on_timer<&tcp_connection::write_timer_expired>) {}

detail::connection_extra& tcp_connection::extra() {
  if (extra_ == nullptr) extra_ = new detail::connection_extra(*this);
  return *extra_;
}

// --- What the loop calls ---

void tcp_connection::begin() {
  idle_since_ = group_->idle_clock();
  from_loop([this] {
    prepare_for_descriptors();
    start_receiving();
    if (auto& connected = group_->handlers().connected) connected(*this);
  });
}

void tcp_connection::received(io::result result) {
  if (!result) return receiving_failed(result.error());
  if (result.count() == 0) return on_peer_end();
  // Given back when the message has been dealt with, so that the next comes to the same place.
  const io::received data = std::move(receiving_.data);
  receive(data.bytes());
}

void tcp_connection::receiving_failed(std::error_code why) noexcept {
  end(has_failed() ? why_ : why, ending::in_order);
}

void tcp_connection::receive(std::span<const std::byte> bytes) {
  bytes_received_ += bytes.size();
  group_->count_received(bytes.size());
  auto& message = group_->handlers().message;
  if (phase_ != phase::open || !message) return;
  ++messages_;
  if (extra_ != nullptr && !extra_->rest.empty()) return receive_after_rest(bytes);
  io::input in(bytes);
  message(*this, in);
  if (!in.empty() && is_open()) keep_rest(in.bytes());
}

void tcp_connection::receive_after_rest(std::span<const std::byte> bytes) {
  io::buffer& rest = extra_->rest;
  rest.append(bytes);
  const std::size_t before = rest.size();
  group_->handlers().message(*this, rest);
  if (rest.size() < before) ++extra_->consumptions;
  if (rest.empty()) {
    rest = io::buffer();
    update_held_bytes();
  } else if (is_open()) {
    keep_rest({});
  }
}

void tcp_connection::keep_rest(std::span<const std::byte> unconsumed) {
  io::buffer& rest = extra().rest;
  rest.append(unconsumed);
  const connection_options& limits = group_->options();
  if (rest.size() > limits.input_limit || !update_held_bytes()) {
    return abort(std::make_error_code(std::errc::no_buffer_space));
  }
  detail::connection_extra& own = *extra_;
  if (own.message_timer.linked() || limits.message_timeout.count() == 0) return;
  own.message_timer.watch(limits.message_timeout, own.consumptions);
  start_timer(own.message_timer);
}

void tcp_connection::message_timer_expired() {
  detail::connection_extra& own = *extra_;
  if (phase_ != phase::open || own.rest.empty()) return;
  if (reading_paused()) {
    own.message_timer.watch(group_->options().message_timeout, own.consumptions);
  } else if (own.message_timer.stalled(own.consumptions)) {
    return end(std::make_error_code(std::errc::timed_out), ending::in_order);
  }
  start_timer(own.message_timer);
}

// Counts what waits; false if its group's memory has no room for that.
bool tcp_connection::update_held_bytes() noexcept {
  if (extra_ == nullptr) return true;
  const detail::attached_output* const attached = extra_->attached.get();
  const std::size_t descriptors = attached == nullptr ? 0 : attached->descriptors();
  const std::size_t held = phase_ == phase::ended ? 0
                                                  : pending_output() + extra_->rest.size() +
                                                        group_->held_as_descriptors(descriptors);
  const std::size_t before = std::exchange(extra_->counted, held);
  return group_->count_held(before, held);
}

// Receives no sooner, so that what comes stays behind.
void tcp_connection::deliver_rest() {
  if (reading_paused()) return;
  if (phase_ == phase::open && extra_ != nullptr && !extra_->rest.empty()) {
    ++messages_;
    group_->count_received(0);
    receive_after_rest({});
  }
  start_receiving();
}

void tcp_connection::on_peer_end() {
  peer_done_ = true;
  if (has_failed()) return end(why_, ending::in_order);
  switch (phase_) {
    case phase::open:
      if (auto& ended = group_->handlers().peer_ended) {
        ended(*this);
        if (fin_sent_) close();
      } else {
        close();
      }
      return;
    case phase::lingering: return end(why_, ending::in_order);
    case phase::flushing:
    case phase::ended: return;
  }
}

void tcp_connection::timer_expired() {
  if (phase_ != phase::open) return closing_timer_expired();
  if (has_failed()) return end(why_, ending::in_order);
  if (extra_->timer.stalled(bytes_received_ + bytes_taken_by_peer())) {
    return end(io::errc::idle_timeout, ending::in_order);
  }
  start_timer(extra_->timer);
}

void tcp_connection::end_if_idle(std::uint32_t present) noexcept {
  auto moved = static_cast<std::uint32_t>(bytes_received_ + bytes_sent_);
  // Bytes that the peer has taken stay taken: for most connections this needs no system call.
  if (moved != idle_moved_) {
    moved = static_cast<std::uint32_t>(bytes_received_ + bytes_taken_by_peer());
  }
  if (moved != idle_moved_) {
    idle_moved_ = moved;
    idle_since_ = present;
  } else if (phase_ == phase::open && !has_failed() && !has_own_idle_timeout_ &&
             present - idle_since_ > detail::connection_group::idle_clock_per_timeout) {
    end(io::errc::idle_timeout, ending::in_order);
  }
}

void tcp_connection::closing_timer_expired() {
  detail::connection_extra& own = *extra_;
  if (!own.timer.stalled(bytes_taken_by_peer()) && loop().now() < own.close_by) {
    const steady_time next = loop().deadline_after(own.timer.quarter());
    loop().start_timer(own.timer, std::min(next, own.close_by));
  } else if (phase_ == phase::flushing) {
    abort(std::make_error_code(std::errc::timed_out));
  } else if (bytes_in_kernel() > 1) {  // which it goes on sending
    end(std::make_error_code(std::errc::timed_out), ending::in_order);
  } else {
    end(why_, ending::in_order);
  }
}

// Sent bytes that the peer has not taken, maybe minutes' worth of a slow one; a FIN counts as one.
std::uint64_t tcp_connection::bytes_in_kernel() const noexcept {
  int count = 0;
  return ::ioctl(handle::fd(), SIOCOUTQ, &count) == 0 ? static_cast<std::uint64_t>(count) : 0;
}

void tcp_connection::on_scheduled(operation& scheduled) {
  tcp_connection& self = *static_cast<group_node&>(scheduled).self;
  self.scheduled_ = false;
  self.from_loop([&self] { self.run_due(); });
  if (self.phase_ == phase::ended && !self.scheduled_) self.finish();
}

void tcp_connection::run_due() {
  connection_handlers& handlers = group_->handlers();
  const calls due = std::exchange(due_, {});
  // Each may end it, or take what the next would tell.
  const auto is_due = [this, due](call which) {
    return due.has(which) && phase_ == phase::open && !has_failed();
  };
  if (due.has(call::message) && is_open()) deliver_rest();
  if (due.has(call::readable) && is_open() && !reading_paused() && !handle::reading()) {
    receive_with_descriptors();
  }
  if (is_due(call::high_water) && handlers.high_water) handlers.high_water(*this, pending_output());
  if (is_due(call::low_water) && handlers.low_water) handlers.low_water(*this);
  if (is_due(call::write_complete) && pending_output() == 0 && handlers.write_complete) {
    handlers.write_complete(*this);
  }
}

void tcp_connection::finish() {
  detail::connection_group& group = *group_;
  const detail::callback_gate::pass passing(group.gate());
  if (!passing) return;  // then the group frees it
  group.connection_ends(*this);
  std::exception_ptr thrown;
  try {
    if (auto& closed = group.handlers().closed) closed(*this, why_);
  } catch (...) {
    thrown = std::current_exception();
  }
  group.remove(*this);
  if (passing) group.connection_gone();
  if (thrown) std::rethrow_exception(thrown);
}

// --- What the program calls ---

void tcp_connection::start_receiving() noexcept {
  if (!is_open() || reading_paused() || peer_done_ || handle::reading()) return;
  if (extra_ != nullptr && extra_->descriptors != nullptr) {
    if (io().start(extra_->descriptors->readable)) schedule(call::readable);
  } else {
    // One that repeats does not complete at once.
    static_cast<void>(io().start(receiving_));
  }
}

void tcp_connection::pause(pauser why) noexcept {
  if (phase_ != phase::open) return;
  if (std::exchange(paused_, paused_ | why) != pausers()) return;
  if (handle::reading()) io().cancel(*handle::reader);
}

void tcp_connection::resume(pausers why) noexcept {
  if (!reading_paused()) return;
  paused_.erase(why);
  if (reading_paused()) return;
  if (phase_ == phase::open) {
    schedule(call::message);  // a message callback that calls this has not left it yet
  } else {
    start_receiving();
  }
}

void tcp_connection::shutdown_send() noexcept {
  if (!can_send()) return;
  shutdown_requested_ = true;
  if (pending_output() == 0) end_sending();
}

void tcp_connection::close() noexcept { close(group_->options().close_timeout); }

void tcp_connection::close(std::chrono::nanoseconds timeout) noexcept {
  close(timeout, group_->options().close_limit);
}

void tcp_connection::close(std::chrono::nanoseconds timeout,
                           std::chrono::nanoseconds limit) noexcept {
  if (phase_ == phase::ended) return;
  if (has_failed()) return end(why_, ending::in_order);
  if (phase_ == phase::open) {
    phase_ = phase::flushing;
    stop_timers();
    resume(pausers(pauser::program) | pauser::output);  // from now on only for the peer's end
    if (pending_output() == 0) linger();
    if (!is_open()) return;
  }
  try {
    limit_closing(timeout, timeout.count() > 0 ? limit : timeout);
  } catch (const std::bad_alloc&) {
    abort(detail::no_memory());
  }
}

void tcp_connection::limit_closing(std::chrono::nanoseconds timeout,
                                   std::chrono::nanoseconds limit) {
  detail::connection_extra& own = extra();
  const steady_time close_by = loop().deadline_after(limit);
  if (!own.timer.linked()) {
    own.timer.watch(timeout, bytes_taken_by_peer());
    own.close_by = close_by;
  } else {
    own.timer.shorten(timeout);
    own.close_by = std::min(own.close_by, close_by);
  }
  const steady_time next = std::min(loop().deadline_after(own.timer.quarter()), own.close_by);
  if (!own.timer.linked() || next < own.timer.deadline()) loop().start_timer(own.timer, next);
}

void tcp_connection::send_fin() noexcept {
  if (std::exchange(fin_sent_, true)) return;
  // Fails where the connection has been reset, which reading tells.
  static_cast<void>(::shutdown(handle::fd(), SHUT_WR));
}

// All that was accepted has been sent.
void tcp_connection::end_sending() noexcept {
  send_fin();
  if (peer_done_) close();
}

void tcp_connection::linger() noexcept {
  send_fin();
  if (peer_done_) return end({}, ending::in_order);
  phase_ = phase::lingering;
}

// The descriptor goes at once, the connection in a turn of its own.
void tcp_connection::end(std::error_code why, ending kind) noexcept {
  if (phase_ == phase::ended) return;
  phase_ = phase::ended;
  why_ = why;
  stop_timers();
  drop_output();
  // release: pairs with the acquire in alive().
  if (control_ != nullptr) control_->alive.store(false, std::memory_order_release);
  io().detach(*this);
  if (kind == ending::reset) detail::reset_when_closed(handle::fd());
  ::close(handle::fd());
  if (group_->gate().is_open()) schedule({});
}

void tcp_connection::schedule(calls due) noexcept {
  due_.insert(due);
  if (std::exchange(scheduled_, true)) return;
  loop().post(group_node_);
}

void tcp_connection::set_idle_timeout(std::chrono::nanoseconds timeout) {
  if (phase_ != phase::open || has_failed()) return;
  has_own_idle_timeout_ = true;
  if (timeout.count() <= 0) {
    if (extra_ != nullptr && extra_->timer.linked()) loop().cancel_timer(extra_->timer);
    return;
  }
  detail::connection_extra& own = extra();
  own.timer.watch(timeout, bytes_received_ + bytes_taken_by_peer());
  start_timer(own.timer);
}

void tcp_connection::start_timer(detail::progress_timer& timer) {
  loop().start_timer(timer, loop().deadline_after(timer.quarter()));
}

void tcp_connection::stop_timers() noexcept {
  if (extra_ == nullptr) return;
  for (detail::progress_timer* each :
       {&extra_->timer, &extra_->message_timer, &extra_->write_timer}) {
    if (each->linked()) loop().cancel_timer(*each);
  }
}

}  // namespace gyre::net
