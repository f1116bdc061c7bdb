// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_group.hpp>

#include <gyre/io/descriptor.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cassert>
#include <stdexcept>
#include <utility>

namespace gyre::net::detail {

void apply(const connection_options& how, const socket_ref& to) noexcept {
  const int on = 1;
  if (how.no_delay) {
    static_cast<void>(::setsockopt(to.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  }
  if (how.keep_alive) {
    static_cast<void>(::setsockopt(to.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on));
  }
}

connection_group::connection_group(event_loop& loop, connection_handlers& handlers,
                                   const connection_options& options)
    : loop_(loop),
      io_(io::backend_of(loop)),
      handlers_(handlers),
      options_(options),
      low_water_(options.low_water.value_or(options.high_water / 4)) {
  if (low_water_ >= options.high_water) {
    throw std::invalid_argument("gyre::net::connection_options: low_water is not below high_water");
  }
  if (options.idle_timeout.count() < 0 || options.close_timeout.count() < 0) {
    throw std::invalid_argument("gyre::net::connection_options: a timeout is negative");
  }
}

connection_group::~connection_group() { assert(empty() && "a group that was not abandoned"); }

bool connection_group::adopt(unique_fd socket, const endpoint& peer, std::uint64_t id) {
  const callback_gate::pass passing(gate_);
  if (!passing) return false;
  tcp_connection* const made = make(socket.get(), peer, id);
  if (made == nullptr) return false;
  static_cast<void>(socket.release());
  list_.push_back(made->place_);
  ++size_;
  connection_begins(*made);
  made->begin();
  return true;
}

tcp_connection* connection_group::make(int fd, const endpoint& peer, std::uint64_t id) noexcept {
  tcp_connection* made = nullptr;
  try {
    made = new tcp_connection(*this, fd, id, peer);
    io_.attach(*made);
    return made;
  } catch (const std::exception&) {  // no memory, or too many descriptors watched
    delete made;
    return nullptr;
  }
}

void connection_group::remove(tcp_connection& ended) noexcept {
  ended.place_.unlink();
  --size_;
  delete &ended;
}

void connection_group::close_all() noexcept {
  close_others();
  for (place& each : list_) {
    each.self->end(std::make_error_code(std::errc::operation_canceled),
                   tcp_connection::ending::in_order);
  }
}

// Whether all could be freed: what waits in the loop's inbox must wait there.
bool connection_group::free_what_is_idle() noexcept {
  for (auto next = list_.begin(); next != list_.end();) {
    tcp_connection& connection = *next++->self;
    if (!connection.later_posted_) remove(connection);
  }
  return empty();
}

// Holds a group until its loop has time to bury it: in a turn, or with its inbox.
class connection_group::undertaker {
 public:
  undertaker(std::shared_ptr<connection_group> group, bool& hired) noexcept
      : group_(std::move(group)), hired_(hired) {}
  undertaker(undertaker&& other) noexcept = default;
  ~undertaker() {
    if (group_ == nullptr || !hired_) return;
    group_->close_all();
    while (place* each = group_->list_.pop_front()) delete each->self;
    group_->size_ = 0;
  }
  void operator()() noexcept { bury(std::exchange(group_, nullptr)); }

 private:
  std::shared_ptr<connection_group> group_;
  bool& hired_;
};

connection_group::burial::burial() noexcept
    : operation([](operation& self) { bury(std::move(static_cast<burial&>(self).group)); }) {}

void connection_group::bury(std::shared_ptr<connection_group> group) noexcept {
  group->close_all();
  if (group->free_what_is_idle()) return;
  bool& hired = group->hired_again_;
  hired = false;
  bury_later(std::move(group), hired);
}

void connection_group::bury_later(std::shared_ptr<connection_group> group, bool& hired) noexcept {
  connection_group& buried = *group;
  try {
    buried.loop().post(undertaker(group, hired));
    // Nobody reads it at the same time: only an undertaker that has not been called.
    hired = true;
  } catch (...) {
    // The inbox has no memory; so as an operation, which would be lost if the loop turned no more.
    buried.burial_.group = std::move(group);
    buried.loop().post(buried.burial_);
  }
}

void connection_group::abandon(std::shared_ptr<connection_group> group) noexcept {
  connection_group& abandoned = *group;
  const bool here = abandoned.loop().in_loop_thread();
  abandoned.gate_.close(here);
  if (here) abandoned.close_all();
  bury_later(std::move(group), abandoned.hired_);
}

}  // namespace gyre::net::detail
