// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http/load.hpp>

#include <lab/harness/http/site.hpp>
#include <lab/harness/network/closed_load.hpp>
#include <lab/harness/network/socket.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace lab::http {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 18;

std::string make_request(const load_plan& plan, std::string_view body, bool closes) {
  std::string text = plan.sent_bytes == 0 ? "GET " : "POST ";
  text += plan.target;
  text += " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(plan.port) +
          "\r\nUser-Agent: gyre-lab\r\nAccept: */*\r\n";
  if (closes) text += "Connection: close\r\n";
  if (plan.sent_bytes != 0) {
    text +=
        "Content-Type: application/octet-stream\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n";
  }
  text += "\r\n";
  text += body;
  return text;
}

}  // namespace

void await_listening(std::uint16_t port) {
  const auto end = clock::now() + std::chrono::seconds{10};
  for (;;) {
    try {
      for (const int each : network::connect_all(port, 1)) close(each);
      return;
    } catch (const std::system_error&) {
      if (clock::now() > end) throw std::runtime_error("the server does not listen");
      std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
  }
}

struct load::slot : network::polled_socket {
  // `body` is the body of the answer, which a POST sends first.
  slot(const load_plan& plan, std::string_view body) : expected(body), answers(expected) {
    const std::string_view sent = plan.sent_bytes == 0 ? std::string_view{} : body;
    const std::string one = make_request(plan, sent, plan.renewed);
    request_bytes = one.size();
    for (std::size_t i = 0; i < plan.in_flight; ++i) requests += one;
    last_request = make_request(plan, sent, true);
  }

  std::string requests;  // as many as may be in flight
  std::string last_request;
  std::size_t request_bytes = 0;
  std::size_t sent_bytes = 0;  // of the request that is being sent
  std::size_t to_send = 0;     // bytes
  std::size_t outstanding = 0;
  bool ends = false;  // by the last request
  std::string expected;
  answer_reader answers;
};

load::load(load_plan plan)
    : plan_(std::move(plan)),
      heads_({.closes = plan_.renewed}),
      last_heads_({.closes = true}),
      buffer_(std::make_unique_for_overwrite<char[]>(buffer_bytes)) {
  for (std::size_t i = 0; i < plan_.connections; ++i) {
    const std::string body =
        plan_.sent_bytes == 0 ? plan_.body : make_pattern(plan_.sent_bytes, i + 1);
    slots_.push_back(std::make_unique<slot>(plan_, body));
  }
  if (plan_.renewed) return;
  const std::vector<int> connected = network::connect_all(plan_.port, plan_.connections);
  open_ = connected.size();
  for (std::size_t i = 0; i < connected.size(); ++i) {
    slots_[i]->fd = connected[i];
    poll_.watch(*slots_[i], EPOLLIN);
  }
}

load::~load() {
  for (const auto& each : slots_) {
    if (each->fd >= 0) close(each->fd);
  }
}

// Takes turns until `done`, a mistake, or a time without an answer.
template <class Done>
void load::await(Done done) {
  network::turn_until([this] { turn(); }, [this] { return answered_ + opened_ - open_; },
                      [&] { return wrong_ != 0 || done(); });
}

void load::run(clock::time_point end) {
  running_ = true;
  for (const auto& each : slots_) {
    if (plan_.renewed) {
      if (each->fd >= 0) continue;  // it asks when this connection has ended
      open(*each);
    }
    if (each->fd >= 0) ask(*each, plan_.in_flight - each->outstanding);
  }
  await([end] { return clock::now() >= end; });
}

void load::finish() {
  running_ = false;
  await([this] { return answered_ == requested_; });
  if (wrong_ != 0 || answered_ != requested_) return;
  for (const auto& each : slots_) {
    if (each->fd >= 0 && !plan_.renewed) end(*each);
  }
  await([this] { return open_ == 0; });
  if (wrong_ == 0 && open_ != 0) {
    ++wrong_;
    mistake_ = "a connection that the server does not end";
  }
}

// Counts neither as a request nor as an answer.
void load::end(slot& peer) {
  peer.ends = true;
  peer.requests = peer.last_request;
  peer.request_bytes = peer.to_send = peer.last_request.size();
  peer.sent_bytes = 0;
  peer.outstanding = 1;
  flush(peer);
}

void load::open(slot& peer) {
  peer.fd = network::begin_connect(plan_.port, opened_++);
  ++open_;
  peer.sent_bytes = peer.to_send = peer.outstanding = 0;
  peer.watched = 0;
  poll_.watch(peer, EPOLLIN);
}

void load::close_slot(slot& peer) {
  close(peer.fd);
  peer.fd = -1;
  --open_;
}

void load::fail(slot& peer, std::string_view reason) {
  ++wrong_;
  if (mistake_.empty()) mistake_ = reason;
  close_slot(peer);
}

// Sends `count` requests more. A sabotaged one is counted and not sent, or sent and not counted.
void load::ask(slot& peer, std::size_t count) {
  peer.outstanding += count;
  peer.to_send += count * peer.request_bytes;
  requested_ += count;
  if (plan_.sabotage != fault::none && !is_sabotaged_) {
    is_sabotaged_ = true;
    if (plan_.sabotage == fault::lose) {
      peer.to_send -= peer.request_bytes;
    } else if (plan_.renewed) {
      --requested_;
    } else {
      peer.to_send += peer.request_bytes;
    }
  }
  flush(peer);
}

void load::flush(slot& peer) {
  while (peer.to_send > 0) {
    const std::size_t size = std::min(peer.to_send, peer.requests.size() - peer.sent_bytes);
    const ssize_t sent =
        ::send(peer.fd, peer.requests.data() + peer.sent_bytes, size, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR)
        return fail(peer, "a connection that cannot be written");
      return poll_.watch(peer, EPOLLIN | EPOLLOUT);
    }
    peer.to_send -= static_cast<std::size_t>(sent);
    peer.sent_bytes = (peer.sent_bytes + static_cast<std::size_t>(sent)) % peer.request_bytes;
  }
  poll_.watch(peer, EPOLLIN);
}

void load::take(slot& peer, std::string_view data) {
  const std::size_t complete =
      peer.answers.read(data, peer.outstanding, peer.ends ? last_heads_ : heads_);
  peer.outstanding -= complete;
  if (!peer.ends) answered_ += complete;
  if (!peer.answers.mistake().empty()) return fail(peer, peer.answers.mistake());
  if (complete > 0 && running_ && !plan_.renewed) ask(peer, complete);
}

void load::ended(slot& peer) {
  const bool may_end = plan_.renewed || peer.ends;
  if (!may_end || peer.outstanding != 0 || !peer.answers.between()) {
    return fail(peer, "a connection that ends early");
  }
  close_slot(peer);
  if (!running_) return;
  open(peer);
  ask(peer, 1);
}

void load::receive(slot& peer) {
  const ssize_t got = recv(peer.fd, buffer_.get(), buffer_bytes, 0);
  if (got > 0) return take(peer, {buffer_.get(), static_cast<std::size_t>(got)});
  if (got == 0) return ended(peer);
  if (errno != EAGAIN && errno != EINTR) fail(peer, "a connection that is reset");
}

void load::turn() {
  poll_.turn<slot>([this](slot& peer) { flush(peer); }, [this](slot& peer) { receive(peer); });
}

}  // namespace lab::http
