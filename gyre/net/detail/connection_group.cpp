// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_group.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/from_loop.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

namespace gyre::net::detail {
namespace {

// Each connection is checked looks_per_timeout times within the idle timeout, so that an idle one
// is found up to an eighth of the timeout late. Each expiry of the timer checks one of
// looks_in_parts parts of the connections, so that many connections do not hold up the loop.
constexpr std::size_t looks_per_timeout = 8;
constexpr std::size_t looks_in_parts = 16;

}  // namespace

void apply(const connection_options& options, const socket_ref& target) noexcept {
  if (options.no_delay) system::set_option(target.fd(), system::tcp_nodelay, 1);
  if (options.keep_alive) system::set_option(target.fd(), system::so_keepalive, 1);
}

connection_group::connection_group(event_loop& loop, connection_handlers& handlers,
                                   const connection_options& options, limits bounds)
    : loop_(loop),
      io_(io::backend_of(loop)),
      receive_memory_(io_.memory()),
      receive_request_(&connection_io::on_received, options.receive_size),
      handlers_(handlers),
      options_(options),
      low_water_(options.low_water.value_or(options.high_water / 4)),
      limits_(bounds),
      idle_timeout_(options.idle_timeout.value_or(bounds.idle_timeout)),
      idle_clock_tick_(idle_timeout_ / idle_clock_per_timeout + std::chrono::nanoseconds{1}) {
  require(low_water_ < options.high_water,
          "gyre::net::connection_options: low_water is not below high_water");
  require(options.receive_size != 0, "gyre::net::connection_options: receive_size is zero");
  const auto check = gyre::detail::require_not_negative;
  check(idle_timeout_, "gyre::net::connection_options: idle_timeout");
  check(options.message_timeout, "gyre::net::connection_options: message_timeout");
  check(options.write_timeout, "gyre::net::connection_options: write_timeout");
  check(options.close_timeout, "gyre::net::connection_options: close_timeout");
  check(options.close_limit, "gyre::net::connection_options: close_limit");
  idle_timer_.emplace(loop, [this] { end_some_idle(); });
}

connection_group::~connection_group() { assert(empty() && "a group that was not abandoned"); }

bool connection_group::adopt(unique_fd socket, const endpoint& peer, std::uint64_t id,
                             std::unique_ptr<layer> protocol,
                             std::span<const std::byte> early_bytes,
                             std::optional<io::handle_kind> kind) {
  const callback_gate::pass gate_pass(gate_);
  if (!gate_pass) return false;
  connection_io* connection = nullptr;
  try {
    scheduled_connections_.reserve(size_ + 1);
    ended_connections_.reserve(size_ + 1);
    connection = new_connection(*this, {socket.get(), kind}, id, peer, std::move(protocol));
    io_.attach(*connection);
  } catch (const std::exception&) {  // memory is exhausted, or too many descriptors are watched
    if (connection != nullptr) delete_connection(*connection);
    return false;
  }
  static_cast<void>(socket.release());
  list_.push_back(*connection);
  ++size_;
  start_idle_timer();
  on_connection_begun(face_of(*connection));
  beginning_ = connection;
  early_bytes_ = early_bytes;
  connection->begin();
  return true;
}

void connection_group::remove_connection(connection_io& connection) noexcept {
  connection.unlink();
  --size_;
  delete_connection(connection);
  if (empty() && idle_timer_) idle_timer_->cancel();
}

// Calls `function` with each connection that has not ended. The list cannot change meanwhile,
// because connections are removed in turns of their own.
template <class Function>
void connection_group::visit_each(Function&& function) {
  std::exception_ptr error;
  for (connection_io& connection : list_) {
    try {
      if (connection.is_open()) from_loop(connection, [&] { function(connection); });
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

void connection_group::for_each(const std::function<void(tcp_connection&)>& function) {
  visit_each([&function](connection_io& connection) { function(face_of(connection)); });
}

// --- Calls in a turn of their own ---

void connection_group::schedule_call(connection_io& connection) noexcept {
  scheduled_connections_.push(&connection);
  post_due_calls();
}

// The function calls defer() instead of post(): the end of a connection need not wait for the next
// turn, unlike its next input.
void connection_group::schedule_finish(connection_io& connection, std::error_code reason) noexcept {
  ended_connections_.push({&connection, reason});
  if (!std::exchange(is_run_posted_, true)) loop_.defer(run_operation_);
}

void connection_group::post_due_calls() noexcept {
  if (!std::exchange(is_run_posted_, true)) loop_.post(run_operation_);
}

// Each call may throw. The destructor of `turn` then posts the remaining calls for the next turn.
void connection_group::run_due_calls() {
  struct turn {
    connection_group& self;
    ~turn() {
      if (self.has_due_calls()) self.post_due_calls();
    }
  } const guard{*this};
  is_run_posted_ = false;
  if (scheduled_now_ + ended_now_ == 0) {
    scheduled_now_ = scheduled_connections_.size();
    ended_now_ = ended_connections_.size();
  }
  constexpr int max_calls = 64;  // more calls would keep the loop from its sockets
  for (int remaining_count = max_calls; remaining_count > 0 && run_next_call();) --remaining_count;
}

bool connection_group::run_next_call() {
  if (scheduled_now_ > 0) {
    --scheduled_now_;
    scheduled_connections_.pop()->on_scheduled();
    return true;
  }
  if (ended_now_ > 0) {
    --ended_now_;
    const ended_connection entry = ended_connections_.pop();
    if (entry.connection->is_scheduled()) {
      ended_connections_.push(entry);  // the connection's scheduled call comes first
    } else {
      finish_connection(*entry.connection, entry.reason);
    }
    return true;
  }
  return false;
}

void connection_group::finish_connection(connection_io& connection, std::error_code reason) {
  const callback_gate::pass gate_pass(gate_);
  if (!gate_pass) return;  // release() frees the connection
  on_connection_ended(face_of(connection));
  std::exception_ptr error;
  try {
    if (auto& handler = handlers_.closed) handler(face_of(connection), reason);
  } catch (...) {
    error = std::current_exception();
  }
  remove_connection(connection);
  if (gate_pass) on_connection_gone();
  if (error) std::rethrow_exception(error);
}

// --- Idle connections ---

void connection_group::start_idle_timer() {
  if (idle_timeout_.count() == 0 || idle_timer_->active()) return;
  const auto interval = idle_timeout_ / (looks_per_timeout * looks_in_parts);
  idle_timer_->start_after(interval + std::chrono::nanoseconds{1});
}

// Checks the next part of the list, which is sorted by the time of the last check. The size of a
// part is fixed when a round begins, so that the last connections are checked in time even if
// others end.
void connection_group::end_some_idle() {
  const callback_gate::pass gate_pass(gate_);
  if (!gate_pass) return;
  const std::uint8_t clock = idle_clock();
  if (idle_part_++ % looks_in_parts == 0) idle_part_size_ = size_ / looks_in_parts + 1;
  for (std::size_t connections_left = std::min(idle_part_size_, size_); connections_left > 0;
       --connections_left) {
    connection_io& front = *list_.pop_front();
    list_.push_back(front);
    front.end_if_idle(clock);
  }
  start_idle_timer();
}

// --- Draining ---

void connection_group::begin_to_drain() {
  is_draining_ = true;
  drain_all();
}

void connection_group::stop_waiting_for_input() {
  waits_for_input_ = false;
  drain_all();
}

// Visits each connection with an empty function, because from_loop() checks after each call whether
// the connection is drained.
void connection_group::drain_all() {
  visit_each([](connection_io&) {});
}

void connection_group::drain(connection_io& connection) {
  if (!connection.is_open() || connection.is_drained()) return;
  if (connection.phase() == connection_phase::open) {
    if (connection.reading_paused()) return;
    if (waits_for_input_ && !connection.peer_has_ended() &&
        defer_drain_for_pending_input(connection))
      return;
  }
  connection.set_drained();
  on_connection_drained(face_of(connection));
}

// Whether the connection must deliver input before it counts as drained: bytes that have arrived,
// the rest of a message, or the first bytes of a new connection, which has not sent either. If
// bytes have arrived, schedules the connection, so that the drain looks at it again.
bool connection_group::defer_drain_for_pending_input(connection_io& connection) noexcept {
  const bool is_new = connection.messages() == 0 && connection.bytes_sent() == 0 &&
                      connection.pending_output() == 0;
  if (is_new) return true;
  const connection_backlog* const backlog = backlog_of(connection);
  if (backlog != nullptr && !backlog->rest.empty()) return true;
  if (!io_.has_arrivals(connection)) return false;
  connection.schedule({});
  return true;
}

void connection_group::limit_closing(closed_by scope, std::chrono::nanoseconds timeout) {
  visit_each([=](connection_io& connection) {
    if (scope == closed_by::all || connection.is_closing()) connection.close(timeout, timeout);
  });
}

void connection_group::close_all() noexcept {
  close_others();
  idle_timer_.reset();
  for (connection_io& connection : list_) connection.end(cancelled(), connection_end::in_order);
}

void connection_group::release(std::shared_ptr<connection_group> group,
                               gyre::detail::release_point point) noexcept {
  connection_group& self = *group;
  const bool loop_continues = point != gyre::detail::release_point::loop_end;
  self.close_all();
  self.scheduled_connections_.clear();
  self.ended_connections_.clear();
  self.scheduled_now_ = self.ended_now_ = 0;
  while (!self.empty()) self.remove_connection(self.list_.front());
  // run_operation_ is in the loop's inbox, so the group must live until it has run.
  if (self.is_run_posted_ && loop_continues) self.release_.post(self.loop(), std::move(group));
}

void connection_group::abandon(std::shared_ptr<connection_group> group) noexcept {
  connection_group& target = *group;
  const bool is_on_loop_thread = target.loop().in_loop_thread();
  target.gate_.close(is_on_loop_thread);
  if (is_on_loop_thread) target.close_all();
  target.release_.post(target.loop(), std::move(group));
}

}  // namespace gyre::net::detail
