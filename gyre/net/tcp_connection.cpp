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

#include <algorithm>

namespace gyre::net {

event_loop& tcp_connection::loop() const noexcept { return group_->loop(); }
io::backend& tcp_connection::io() const noexcept { return group_->io(); }

template <void (tcp_connection::*Expired)()>
void tcp_connection::on_timer(timer_operation& timer) {
  tcp_connection& self = *static_cast<detail::progress_timer&>(timer).self;
  self.from_loop([&self] { (self.*Expired)(); });
}

detail::connection_backlog::connection_backlog(tcp_connection& owner) noexcept
    : writing(owner, {}, &tcp_connection::on_done<&tcp_connection::written>),
      timer(owner, &tcp_connection::on_timer<&tcp_connection::timer_expired>),
      message_timer(owner, &tcp_connection::on_timer<&tcp_connection::message_timer_expired>),
      write_timer(owner, &tcp_connection::on_timer<&tcp_connection::write_timer_expired>) {}

// --- What the loop calls ---

void tcp_connection::begin(std::span<const std::byte> early) {
  idle_since_ = group_->idle_clock();
  from_loop([this, early] {
    prepare_for_descriptors();
    start_receiving();
    if (auto& connected = group_->handlers().connected) connected(*this);
    if (layered_ && is_open()) {  // some may have come with the handshake
      const std::size_t bytes = layered().protocol->unread().size();
      bytes_received_ += bytes;
      if (bytes > 0) group_->count_received(bytes);
      receive_layered({});
    }
    if (!early.empty() && is_open()) receive(early);
  });
}

void tcp_connection::on_received(io::handle& source, io::result result) {
  auto& self = static_cast<tcp_connection&>(source);
  self.from_loop([&self, result] { self.received(result); });
}

void tcp_connection::received(io::result result) {
  if (!result) return receiving_failed(result.error());
  if (result.count() == 0) return on_peer_end();
  // Given back when the message has been dealt with, so that the next comes to the same place.
  const io::received data = std::move(group_->receive_memory().arrived());
  receive(data.bytes());
}

void tcp_connection::receiving_failed(std::error_code why) noexcept {
  end(has_failed() ? failure() : why, ending::in_order);
}

void tcp_connection::receive(std::span<const std::byte> bytes) {
  bytes_received_ += bytes.size();
  group_->count_received(bytes.size());
  if (layered_) return receive_layered(bytes);
  deliver(bytes);
}

void tcp_connection::deliver(std::span<const std::byte> bytes) {
  auto& message = group_->handlers().message;
  if (phase_ != phase::open || !message) return;
  // A handler that pauses while a connection begins gets the bytes later.
  if (reading_paused()) return keep_rest(bytes);
  ++messages_;
  if (backlog() != nullptr && !backlog()->rest.empty()) return receive_after_rest(bytes);
  io::input in(bytes);
  message(*this, in);
  if (!in.empty() && is_open()) keep_rest(in.bytes());
}

void tcp_connection::receive_after_rest(std::span<const std::byte> bytes) {
  detail::connection_backlog& own = *backlog();
  io::buffer& rest = own.rest;
  rest.append(bytes);
  const std::size_t before = rest.size();
  group_->handlers().message(*this, rest);
  if (rest.size() < before) ++own.consumptions;
  if (rest.empty()) {
    rest = io::buffer();
    update_held_bytes();
  } else if (is_open()) {
    keep_rest({});
  }
}

void tcp_connection::keep_rest(std::span<const std::byte> unconsumed) {
  detail::connection_backlog& own = make_backlog();
  io::buffer& rest = own.rest;
  rest.append(unconsumed);
  const connection_options& limits = group_->options();
  // A paused connection may have got bytes with its handshake, and gets no others.
  if (rest.size() > limits.input_limit && !reading_paused()) return abort(io::errc::input_limit);
  if (!update_held_bytes()) return abort(io::errc::memory_limit);
  if (own.message_timer.linked() || limits.message_timeout.count() == 0) return;
  own.message_timer.watch(limits.message_timeout, own.consumptions);
  start_timer(own.message_timer);
}

void tcp_connection::message_timer_expired() {
  detail::connection_backlog& own = *backlog();
  if (phase_ != phase::open || own.rest.empty()) return;
  if (reading_paused()) {
    own.message_timer.watch(group_->options().message_timeout, own.consumptions);
  } else if (own.message_timer.stalled(own.consumptions)) {
    return end(io::errc::message_timeout, ending::in_order);
  }
  start_timer(own.message_timer);
}

// Counts what waits; false if its group's memory has no room for that.
bool tcp_connection::update_held_bytes() noexcept {
  detail::connection_backlog* const own = backlog();
  if (own == nullptr) return true;
  const detail::attached_output* const attached = own->attached.get();
  const std::size_t descriptors = attached == nullptr ? 0 : attached->descriptors();
  const std::size_t unread = layered_ ? layered().protocol->unread().size() : 0;
  const std::size_t held = phase_ == phase::ended ? 0
                                                  : pending_output() + own->rest.size() + unread +
                                                        group_->held_as_descriptors(descriptors);
  const std::size_t before = std::exchange(own->counted, held);
  return group_->count_held(before, held);
}

// Receives no sooner, so that what comes stays behind.
void tcp_connection::deliver_rest() {
  if (reading_paused()) return;
  if (phase_ == phase::open && backlog() != nullptr && !backlog()->rest.empty()) {
    ++messages_;
    group_->count_received(0);
    receive_after_rest({});
  }
  const bool has_ended = layered_ && phase_ == phase::open && layered().protocol->has_ended();
  if (!has_ended) return start_receiving();
  if (!peer_done_ && !reading_paused() && !due_.has(call::message)) on_peer_end();
}

void tcp_connection::on_peer_end() {
  peer_done_ = true;
  if (layered_ && phase_ == phase::open && !has_failed()) {
    const bool is_early = awaits_peer() || layered().protocol->end_of_bytes();
    if (is_early) return end(layered().cut_off(), ending::in_order);
  }
  if (has_failed()) return end(failure(), ending::in_order);
  switch (phase_) {
    case phase::open:
      if (auto& ended = group_->handlers().peer_ended) {
        ended(*this);
        if (fin_sent_) close();
      } else {
        close();
      }
      return;
    case phase::lingering: return end({}, ending::in_order);
    case phase::flushing:
      if (awaits_peer() && pending_sealed() == 0) {
        end(layered().cut_off(), ending::in_order);
      }
      return;
    case phase::ended: return;
  }
}

void tcp_connection::timer_expired() {
  if (phase_ != phase::open) return closing_timer_expired();
  if (has_failed()) return end(failure(), ending::in_order);
  detail::progress_timer& timer = backlog()->timer;
  if (timer.stalled(bytes_received_ + bytes_taken_by_peer())) {
    return end(io::errc::idle_timeout, ending::in_order);
  }
  start_timer(timer);
}

void tcp_connection::end_if_idle(std::uint8_t present) noexcept {
  auto moved = static_cast<std::uint32_t>(bytes_received_ + bytes_sent_);
  // Bytes that the peer has taken stay taken: for most connections this needs no system call.
  if (moved != idle_moved_) {
    moved = static_cast<std::uint32_t>(bytes_received_ + bytes_taken_by_peer());
  }
  if (moved != idle_moved_) {
    idle_moved_ = moved;
    idle_since_ = present;
  } else if (phase_ == phase::open && !has_failed() && !has_own_idle_timeout_ &&
             static_cast<std::uint8_t>(present - idle_since_) >
                 detail::connection_group::idle_clock_per_timeout) {
    end(io::errc::idle_timeout, ending::in_order);
  }
}

void tcp_connection::closing_timer_expired() {
  detail::connection_backlog& own = *backlog();
  if (!own.timer.stalled(bytes_taken_by_peer()) && loop().now() < own.close_by) {
    const steady_time next = loop().deadline_after(own.timer.quarter());
    loop().start_timer(own.timer, std::min(next, own.close_by));
  } else if (phase_ == phase::flushing && pending_output() > 0) {
    abort(io::errc::close_timeout);
  } else if (bytes_in_kernel() > 1) {  // which it goes on sending
    end(io::errc::close_timeout, ending::in_order);
  } else {
    end({}, ending::in_order);
  }
}

// Sent bytes that the peer has not taken, maybe minutes' worth of a slow one; a FIN counts as one.
std::uint64_t tcp_connection::bytes_in_kernel() const noexcept {
  int count = 0;
  return ::ioctl(handle::fd(), SIOCOUTQ, &count) == 0 ? static_cast<std::uint64_t>(count) : 0;
}

void tcp_connection::on_scheduled() {
  scheduled_ = false;
  from_loop([this] { run_due(); });
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

void tcp_connection::finish(std::error_code why) {
  detail::connection_group& group = *group_;
  const detail::callback_gate::pass passing(group.gate());
  if (!passing) return;  // then the group frees it
  group.connection_ends(*this);
  std::exception_ptr thrown;
  try {
    if (auto& closed = group.handlers().closed) closed(*this, why);
  } catch (...) {
    thrown = std::current_exception();
  }
  group.remove(*this);
  if (passing) group.connection_gone();
  if (thrown) std::rethrow_exception(thrown);
}

// --- What the program calls ---

void tcp_connection::start_receiving() noexcept {
  if (!is_open() || peer_done_ || handle::reading()) return;
  if (reading_paused() && !awaits_peer()) return;
  if (backlog() != nullptr && backlog()->descriptors != nullptr) {
    if (io().start(backlog()->descriptors->readable)) schedule(call::readable);
  } else {
    // One that repeats does not complete at once.
    static_cast<void>(io().start_receiving(*this, group_->receiving()));
  }
}

void tcp_connection::pause(pauser why) noexcept {
  if (phase_ != phase::open) return;
  if (std::exchange(paused_, paused_ | why) != pausers()) return;
  if (handle::reading() && !awaits_peer()) io().stop_receiving(*this);
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
  if (pending_output() == 0) layered_ ? end_layered() : end_sending();
}

void tcp_connection::close() noexcept { close(group_->options().close_timeout); }

void tcp_connection::close(duration timeout) noexcept {
  close(timeout, group_->options().close_limit);
}

void tcp_connection::close(duration timeout, duration limit) noexcept {
  if (phase_ == phase::ended) return;
  if (has_failed()) return end(failure(), ending::in_order);
  limited_when_sent_ = false;
  if (phase_ == phase::open) {
    begin_flushing();
    if (pending_output() == 0) layered_ ? end_layered() : linger();
    if (!is_open()) return;
  }
  try {
    limit_closing(timeout, timeout.count() > 0 ? limit : timeout);
  } catch (const std::bad_alloc&) {
    abort(detail::no_memory());
  }
}

void tcp_connection::begin_flushing() noexcept {
  phase_ = phase::flushing;
  stop_timers();
  resume(pausers(pauser::program) | pauser::output);  // from now on only for the peer's end
}

void tcp_connection::close_when_sent() noexcept {
  if (phase_ != phase::open) return;
  if (has_failed() || pending_output() == 0) return close();
  limited_when_sent_ = true;
  begin_flushing();
  watch_output();
}

void tcp_connection::close_without_lingering() noexcept {
  if (phase_ == phase::ended) return;
  lingers_ = false;
  if (phase_ == phase::lingering) return end({}, ending::in_order);
  close_when_sent();
}

void tcp_connection::limit_closing(duration timeout, duration limit) {
  detail::connection_backlog& own = make_backlog();
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
  if (fin_sent_) return;
  fin_sent_ = true;
  // Fails where the connection has been reset, which reading tells.
  static_cast<void>(::shutdown(handle::fd(), SHUT_WR));
}

// All that was accepted has been sent.
void tcp_connection::end_sending() noexcept {
  send_fin();
  if (peer_done_) close();
}

void tcp_connection::linger() noexcept {
  if (!lingers_) return end({}, ending::in_order);
  send_fin();
  if (peer_done_) return end({}, ending::in_order);
  phase_ = phase::lingering;
  if (limited_when_sent_) close();
}

// The descriptor goes at once, the connection in a turn of its own.
void tcp_connection::end(std::error_code why, ending kind) noexcept {
  if (phase_ == phase::ended) return;
  phase_ = phase::ended;
  stop_timers();
  drop_output();
  // release: pairs with the acquire in alive().
  if (extra_ != nullptr && extra_->control != nullptr) {
    extra_->control->alive.store(false, std::memory_order_release);
  }
  io().detach(*this);
  if (layered_) layered().sealed = io::buffer();
  if (kind == ending::reset) detail::reset_when_closed(handle::fd());
  ::close(handle::fd());
  if (group_->gate().is_open()) group_->schedule_finish(*this, why);
}

void tcp_connection::schedule(calls due) noexcept {
  due_.insert(due);
  if (scheduled_) return;
  scheduled_ = true;
  group_->schedule(*this);
}

void tcp_connection::set_idle_timeout(duration timeout) {
  if (phase_ != phase::open || has_failed()) return;
  has_own_idle_timeout_ = true;
  if (timeout.count() <= 0) {
    if (backlog() != nullptr && backlog()->timer.linked()) loop().cancel_timer(backlog()->timer);
    return;
  }
  detail::connection_backlog& own = make_backlog();
  own.timer.watch(timeout, bytes_received_ + bytes_taken_by_peer());
  start_timer(own.timer);
}

void tcp_connection::start_timer(detail::progress_timer& timer) {
  loop().start_timer(timer, loop().deadline_after(timer.quarter()));
}

void tcp_connection::stop_timers() noexcept {
  detail::connection_backlog* const own = backlog();
  if (own == nullptr) return;
  for (detail::progress_timer* each : {&own->timer, &own->message_timer, &own->write_timer}) {
    if (each->linked()) loop().cancel_timer(*each);
  }
}

}  // namespace gyre::net
