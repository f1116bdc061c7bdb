// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_closing.hpp>

#include <gyre/io/backend.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/connection_io.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/peer_failure.hpp>
#include <gyre/net/socket.hpp>

#include <algorithm>
#include <atomic>
#include <new>

namespace gyre::net::detail {

// --- Calls of the program ---

void connection_closing::close() noexcept {
  close(whole_of(*this).group().options().close_timeout);
}

void connection_closing::close(duration timeout) noexcept {
  close(timeout, whole_of(*this).group().options().close_limit);
}

void connection_closing::close(duration timeout, duration limit) noexcept {
  connection_io& self = whole_of(*this);
  if (!is_open()) return;
  if (has_failed()) return end(failure(), connection_end::in_order);
  is_limited_when_sent_ = false;
  if (phase_ == connection_phase::open) {
    begin_flushing();
    if (self.pending_output() == 0) self.has_layer() ? self.end_layered() : linger();
    if (!is_open()) return;
  }
  try {
    limit_closing(timeout, timeout.count() > 0 ? limit : timeout);
  } catch (const std::bad_alloc&) {
    abort(no_memory());
  }
}

void connection_closing::close_when_sent() noexcept {
  if (!delivers()) return;
  if (has_failed() || whole_of(*this).pending_output() == 0) return close();
  is_limited_when_sent_ = true;
  begin_flushing();
  whole_of(*this).watch();
}

void connection_closing::close_without_lingering() noexcept {
  if (!is_open()) return;
  lingers_ = false;
  if (phase_ == connection_phase::lingering) return end({}, connection_end::in_order);
  close_when_sent();
}

void connection_closing::set_idle_timeout(duration timeout) {
  connection_io& self = whole_of(*this);
  if (phase_ != connection_phase::open) return;
  has_own_idle_timeout_ = true;
  if (timeout.count() <= 0) {
    connection_backlog* const backlog = backlog_of(self);
    if (backlog != nullptr && backlog->timer.linked()) self.loop().cancel_timer(backlog->timer);
    return;
  }
  progress_timer& timer = self.make_backlog().timer;
  timer.watch(timeout, self.bytes_received() + self.bytes_taken_by_peer());
  start_timer(timer);
}

// --- Changes of the phase ---

void connection_closing::begin_flushing() noexcept {
  using pauser = connection_input::pauser;
  phase_ = connection_phase::flushing;
  stop_timers();
  // A closing connection receives only to learn of the peer's end, so that no pause may delay it.
  whole_of(*this).resume(connection_input::pausers(pauser::program) | pauser::output);
}

// Called when the kernel has taken all output of a connection that ends its sending.
void connection_closing::end_sending() noexcept {
  whole_of(*this).send_fin();
  if (whole_of(*this).peer_has_ended()) close();
}

void connection_closing::linger() noexcept {
  if (!lingers_) return end({}, connection_end::in_order);
  whole_of(*this).send_fin();
  if (whole_of(*this).peer_has_ended()) return end({}, connection_end::in_order);
  phase_ = connection_phase::lingering;
  if (is_limited_when_sent_) close();
}

// Continues to read: the peer may have sent a response before it reset the connection, or closed it
// with unread input. The response is still in the kernel, and the connection ends when all of it
// was read. If the peer of a Unix socket has shut down only one direction, reading does not end;
// then the timer ends the connection.
void connection_closing::on_sending_failed(std::error_code reason) noexcept {
  connection_io& self = whole_of(*this);
  self.resume(connection_input::pauser::output);
  const bool is_open = phase_ == connection_phase::open;
  const bool may_read = !self.reading_paused() && !self.peer_has_ended();
  if (is_open && self.has_layer() && self.reading_paused() && !self.peer_has_ended()) {
    return end(read_peer_failure(self.fd(), layer_of(self).protocol(), reason),
               connection_end::in_order);
  }
  if (!is_open || !may_read) return end(reason, connection_end::in_order);
  self.stop();
  try {
    const steady_time deadline = self.loop().deadline_after(self.group().options().close_timeout);
    connection_backlog& backlog = self.make_backlog();
    self.loop().start_timer(backlog.timer, deadline);
    backlog.failure = reason;
    phase_ = connection_phase::failed;
  } catch (const std::bad_alloc&) {
    end(reason, connection_end::in_order);
  }
}

std::error_code connection_closing::failure() const noexcept {
  return has_failed() ? backlog_of(whole_of(*this))->failure : std::error_code();
}

void connection_closing::end(std::error_code reason, connection_end kind) noexcept {
  if (!is_open()) return;
  const unique_fd socket = leave(reason);
  if (kind == connection_end::reset) reset_when_closed(socket.get());
}

unique_fd connection_closing::leave(std::error_code reason) noexcept {
  connection_io& self = whole_of(*this);
  phase_ = connection_phase::ended;
  stop_timers();
  self.drop();
  const connection_extra* const extra = self.existing_extra();
  // release: pairs with the acquire in tcp_connection_ref::alive(); makes the effects of the
  // connection visible to a thread that reads false.
  if (extra != nullptr && extra->control != nullptr) {
    extra->control->is_alive.store(false, std::memory_order_release);
  }
  unique_fd socket(self.fd());
  self.group().io().detach(self);
  if (self.has_layer()) layer_of(self).sealed_output = io::buffer();
  if (self.group().gate().is_open()) self.group().schedule_finish(self, reason);
  return socket;
}

// --- Timeouts ---

void connection_closing::limit_closing(duration timeout, duration limit) {
  connection_io& self = whole_of(*this);
  connection_backlog& backlog = self.make_backlog();
  const steady_time close_by = self.loop().deadline_after(limit);
  if (!backlog.timer.linked()) {
    backlog.timer.watch(timeout, self.bytes_taken_by_peer());
    backlog.close_by = close_by;
  } else {
    backlog.timer.shorten(timeout);
    backlog.close_by = std::min(backlog.close_by, close_by);
  }
  const steady_time deadline =
      std::min(self.loop().deadline_after(backlog.timer.quarter()), backlog.close_by);
  if (!backlog.timer.linked() || deadline < backlog.timer.deadline()) {
    self.loop().start_timer(backlog.timer, deadline);
  }
}

void connection_closing::on_timer_expired() {
  connection_io& self = whole_of(*this);
  if (has_failed()) return end(failure(), connection_end::in_order);
  if (phase_ != connection_phase::open) return on_closing_timer_expired();
  progress_timer& timer = backlog_of(self)->timer;
  if (timer.stalled(self.bytes_received() + self.bytes_taken_by_peer())) {
    return end(io::errc::idle_timeout, connection_end::in_order);
  }
  start_timer(timer);
}

void connection_closing::on_closing_timer_expired() {
  connection_io& self = whole_of(*this);
  connection_backlog& backlog = *backlog_of(self);
  event_loop& loop = self.loop();
  if (!backlog.timer.stalled(self.bytes_taken_by_peer()) && loop.now() < backlog.close_by) {
    const steady_time deadline = loop.deadline_after(backlog.timer.quarter());
    loop.start_timer(backlog.timer, std::min(deadline, backlog.close_by));
  } else if (phase_ == connection_phase::flushing && self.pending_output() > 0) {
    abort(io::errc::close_timeout);
  } else if (self.bytes_in_kernel() > 1) {  // the kernel continues to send the last bytes
    end(io::errc::close_timeout, connection_end::in_order);
  } else {
    end({}, connection_end::in_order);
  }
}

void connection_closing::end_if_idle(std::uint8_t idle_clock) noexcept {
  if (whole_of(*this).note_progress()) {
    idle_since_ = idle_clock;
  } else if (phase_ == connection_phase::open && !has_own_idle_timeout_ &&
             static_cast<std::uint8_t>(idle_clock - idle_since_) >
                 connection_group::idle_clock_per_timeout) {
    end(io::errc::idle_timeout, connection_end::in_order);
  }
}

void connection_closing::start_timer(progress_timer& timer) {
  whole_of(*this).loop().start_timer(timer, whole_of(*this).loop().deadline_after(timer.quarter()));
}

void connection_closing::stop_timers() noexcept {
  connection_backlog* const backlog = backlog_of(whole_of(*this));
  if (backlog == nullptr) return;
  for (progress_timer* timer : {&backlog->timer, &backlog->message_timer, &backlog->write_timer}) {
    if (timer->linked()) whole_of(*this).loop().cancel_timer(*timer);
  }
}

}  // namespace gyre::net::detail
