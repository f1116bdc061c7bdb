// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http2/load.hpp>

#include <lab/harness/http2/session.hpp>
#include <lab/harness/network/closed_load.hpp>
#include <lab/harness/network/socket.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lab::http2 {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 18;

}  // namespace

struct load::slot : network::polled_socket {
  slot(const load_plan& plan, int socket, bool idle)
      : polled_socket{.fd = socket},
        is_idle(idle),
        state({.authority = "127.0.0.1:" + std::to_string(plan.port),
               .target = plan.target,
               .sent_body = plan.sent_body,
               .expected_body = plan.expected_body}) {}

  bool is_idle;
  session state;
  std::size_t outstanding = 0;
};

load::load(load_plan plan)
    : plan_(std::move(plan)), buffer_(std::make_unique_for_overwrite<char[]>(buffer_bytes)) {
  open(plan_.connections, false);
}

load::~load() {
  for (const auto& each : slots_) {
    if (each->fd >= 0) close(each->fd);
  }
}

// Takes turns until `done`, a mistake, or a time without a byte; the latter is the mistake
// `otherwise`, unless that is empty.
template <class Done>
void load::await(Done done, std::string_view otherwise) {
  network::turn_until([this] { turn(); }, [this] { return received_bytes_; },
                      [&] { return wrong_ != 0 || done(); });
  if (wrong_ != 0 || otherwise.empty() || done()) return;
  ++wrong_;
  mistake_ = otherwise;
}

void load::open(std::size_t count, bool is_idle) {
  for (const int fd : network::connect_all(plan_.port, count)) {
    slots_.push_back(std::make_unique<slot>(plan_, fd, is_idle));
    flush(*slots_.back());
  }
  const auto is_ready = [](const auto& each) { return each->state.is_ready(); };
  await([&] { return std::ranges::all_of(slots_, is_ready); }, "a server without SETTINGS");
  for (const auto& each : slots_) {
    if (wrong_ == 0 && each->state.max_streams() < plan_.in_flight) {
      fail(*each,
           "the server allows only " + std::to_string(each->state.max_streams()) + " streams");
    }
  }
}

void load::hold(std::size_t count) {
  if (wrong_ != 0) return;
  const std::size_t before = slots_.size();
  open(count, true);
  for (std::size_t i = before; i < slots_.size() && wrong_ == 0; ++i) request(*slots_[i], 1);
  await([this] { return answered_ == requested_; }, "a request that is not answered");
}

void load::hold_streams(std::size_t count) {
  for (const auto& each : slots_) {
    if (wrong_ != 0) return;
    if (!each->is_idle) continue;
    for (std::size_t i = 0; i < count; ++i) each->state.hold_stream();
  }
  await_pongs();
}

void load::await_pongs() {
  for (const auto& each : slots_) {
    if (wrong_ != 0) return;
    each->state.ping();
    flush(*each);
  }
  const auto has_pong = [](const auto& each) { return each->state.has_pong(); };
  await([&] { return std::ranges::all_of(slots_, has_pong); }, "a PING without a reply");
}

void load::run(clock::time_point end) {
  running_ = true;
  const std::uint64_t before = answered_;
  for (const auto& each : slots_) {
    if (wrong_ == 0 && !each->is_idle) request(*each, plan_.in_flight - each->outstanding);
  }
  await([&] { return clock::now() >= end && answered_ != before; }, {});
}

void load::finish() {
  running_ = false;
  await([this] { return answered_ == requested_; }, {});
  if (wrong_ == 0 && answered_ == requested_) await_pongs();
}

void load::fail(slot& peer, std::string_view reason) {
  ++wrong_;
  if (mistake_.empty()) mistake_ = reason;
  close(peer.fd);
  peer.fd = -1;
}

// Sends requests. A sabotaged one is counted and not sent, or sent and not counted.
void load::request(slot& peer, std::size_t count) {
  peer.outstanding += count;
  requested_ += count;
  const bool may_be_sabotaged = count > 0 && !peer.is_idle;
  if (plan_.sabotage != fault::none && may_be_sabotaged && !std::exchange(is_sabotaged_, true)) {
    if (plan_.sabotage == fault::lose) {
      --count;
    } else {
      peer.state.request_unnoticed();
    }
  }
  for (std::size_t i = 0; i < count; ++i) peer.state.request();
  flush(peer);
}

void load::flush(slot& peer) {
  for (std::string* output = &peer.state.output(); !output->empty();
       output = &peer.state.output()) {
    const ssize_t sent = ::send(peer.fd, output->data(), output->size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR)
        return fail(peer, "a connection that cannot be written");
      return poll_.watch(peer, EPOLLIN | EPOLLOUT);
    }
    output->erase(0, static_cast<std::size_t>(sent));
  }
  poll_.watch(peer, EPOLLIN);
}

void load::receive(slot& peer) {
  const ssize_t got = recv(peer.fd, buffer_.get(), buffer_bytes, 0);
  if (got == 0) return fail(peer, "a connection that ends early");
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) fail(peer, "a connection that is reset");
    return;
  }
  received_bytes_ += static_cast<std::uint64_t>(got);
  const std::size_t complete = peer.state.receive({buffer_.get(), static_cast<std::size_t>(got)});
  answered_ += complete;
  peer.outstanding -= complete;
  if (!peer.state.mistake().empty()) return fail(peer, peer.state.mistake());
  if (running_ && complete > 0 && !peer.is_idle) return request(peer, complete);
  flush(peer);
}

void load::turn() {
  poll_.turn<slot>([this](slot& peer) { flush(peer); }, [this](slot& peer) { receive(peer); });
}

}  // namespace lab::http2
