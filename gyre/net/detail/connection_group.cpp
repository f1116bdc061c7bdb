// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_group.hpp>

#include <gyre/io/descriptor.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>

namespace gyre::net::detail {
namespace {

// Per idle timeout all connections are looked at eight times, in sixteen parts, so that many hold
// nothing up. Movement and standstill are noticed up to an eighth late.
constexpr std::size_t looks_per_timeout = 8;
constexpr std::size_t looks_in_parts = 16;

}  // namespace

void apply(const connection_options& options, const socket_ref& to) noexcept {
  const auto enable = [fd = to.fd()](int level, int option) {
    const int on = 1;
    static_cast<void>(::setsockopt(fd, level, option, &on, sizeof on));
  };
  if (options.no_delay) enable(IPPROTO_TCP, TCP_NODELAY);
  if (options.keep_alive) enable(SOL_SOCKET, SO_KEEPALIVE);
}

connection_group::connection_group(event_loop& loop, connection_handlers& handlers,
                                   const connection_options& options, limits bounds)
    : loop_(loop),
      io_(io::backend_of(loop)),
      handlers_(handlers),
      options_(options),
      low_water_(options.low_water.value_or(options.high_water / 4)),
      limits_(bounds),
      idle_timeout_(options.idle_timeout.value_or(bounds.idle_timeout)),
      idle_clock_tick_(idle_timeout_ / idle_clock_per_timeout + std::chrono::nanoseconds{1}) {
  require(low_water_ < options.high_water,
          "gyre::net::connection_options: low_water is not below high_water");
  require(std::min({idle_timeout_, options.close_timeout, options.close_limit,
                    options.message_timeout, options.write_timeout}) >= idle_timeout_.zero(),
          "gyre::net::connection_options: a timeout is negative");
  idle_timer_.emplace(loop, [this] { end_some_idle(); });
}

connection_group::~connection_group() { assert(empty() && "a group that was not abandoned"); }

bool connection_group::adopt(unique_fd socket, const endpoint& peer, std::uint64_t id) {
  const callback_gate::pass passing(gate_);
  if (!passing) return false;
  tcp_connection* connection = nullptr;
  try {
    connection = new tcp_connection(*this, socket.get(), id, peer);
    io_.attach(*connection);
  } catch (const std::exception&) {  // no memory, or too many descriptors watched
    delete connection;
    return false;
  }
  static_cast<void>(socket.release());
  list_.push_back(connection->group_node_);
  ++size_;
  start_idle_timer();
  connection_begins(*connection);
  connection->begin();
  return true;
}

void connection_group::remove(tcp_connection& ended) noexcept {
  ended.group_node_.unlink();
  --size_;
  delete &ended;
  if (empty() && idle_timer_) idle_timer_->cancel();
}

void connection_group::start_idle_timer() {
  if (idle_timeout_.count() == 0 || idle_timer_->active()) return;
  const auto between = idle_timeout_ / (looks_per_timeout * looks_in_parts);
  idle_timer_->start_after(between + std::chrono::nanoseconds{1});
}

// The list is in the order of the last look. A part is as large as it was when the round began, so
// that the last connections are looked at in time though others end.
void connection_group::end_some_idle() {
  const callback_gate::pass passing(gate_);
  if (!passing) return;
  const std::uint32_t present = idle_clock();
  if (idle_part_++ % looks_in_parts == 0) idle_part_size_ = size_ / looks_in_parts + 1;
  for (std::size_t left = std::min(idle_part_size_, size_); left > 0; --left) {
    group_node& next = *list_.pop_front();
    list_.push_back(next);
    next.self->end_if_idle(present);
  }
  start_idle_timer();
}

void connection_group::close_all() noexcept {
  close_others();
  idle_timer_.reset();
  for (group_node& each : list_) {
    each.self->end(cancelled(), tcp_connection::ending::in_order);
  }
}

void connection_group::release(std::shared_ptr<connection_group> group,
                               gyre::detail::release_point point) noexcept {
  connection_group& self = *group;
  const bool loop_goes_on = point != gyre::detail::release_point::loop_end;
  self.close_all();
  for (auto next = self.list_.begin(); next != self.list_.end();) {
    tcp_connection& connection = *next++->self;
    // A connection that is in the loop's inbox must stay until it has run.
    if (!connection.scheduled_ || !loop_goes_on) self.remove(connection);
  }
  if (!self.empty()) self.release_.post(self.loop(), std::move(group));
}

void connection_group::abandon(std::shared_ptr<connection_group> group) noexcept {
  connection_group& abandoned = *group;
  const bool here = abandoned.loop().in_loop_thread();
  abandoned.gate_.close(here);
  if (here) abandoned.close_all();
  abandoned.release_.post(abandoned.loop(), std::move(group));
}

}  // namespace gyre::net::detail
