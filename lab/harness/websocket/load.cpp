// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/websocket/load.hpp>

#include <lab/harness/network/closed_load.hpp>
#include <lab/harness/network/socket.hpp>
#include <lab/harness/websocket/frames.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lab::websocket {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 18;
constexpr std::size_t max_repeated_bytes = std::size_t{1} << 16;
constexpr std::size_t max_head_bytes = 8192;
constexpr std::size_t idle_message_bytes = 16;

}  // namespace

struct load::slot : network::polled_socket {
  slot(role purpose, std::string expected, bool is_packed, std::size_t in_flight)
      : kind(purpose), message(std::move(expected)), frames(message, is_packed) {
    if (kind == role::subscriber) return;
    const std::string frame = client_frame(is_packed ? packed(message) : message, is_packed);
    frame_bytes = frame.size();
    const std::size_t count =
        std::clamp<std::size_t>(max_repeated_bytes / frame_bytes, 1, in_flight);
    for (std::size_t i = 0; i < count; ++i) repeated += frame;
  }

  bool is_in_frame() const { return frame_bytes != 0 && sent_bytes % frame_bytes != 0; }
  std::size_t left_in_frame() const { return frame_bytes - sent_bytes % frame_bytes; }
  bool may_be_ended() const { return frames.has_close() && frames.is_between(); }

  role kind;
  std::string message;
  frame_reader frames;
  std::string head;       // the head of the response to the upgrade
  bool is_open = false;   // whether the upgrade has succeeded
  std::string first_out;  // bytes to send before the messages: the upgrade, pongs, Close
  std::string repeated;   // the frame, several times
  std::size_t frame_bytes = 0;
  std::size_t sent_bytes = 0;  // bytes of `repeated` that were sent
  std::size_t to_send = 0;     // bytes of messages that must still be sent
  std::uint64_t received = 0;  // messages that a subscriber has got
  std::size_t outstanding = 0;
};

load::load(load_plan plan)
    : plan_(plan),
      buffer_(std::make_unique_for_overwrite<char[]>(buffer_bytes)),
      awaiting_(plan.in_flight, 0) {
  open(plan_.connections, role::echo);
  open(plan_.subscribers, role::subscriber);
  if (plan_.subscribers != 0) open(1, role::publisher);
  await_open();
}

load::~load() {
  for (const auto& each : slots_) {
    if (each->fd >= 0) close(each->fd);
  }
}

void load::open(std::size_t count, role purpose) {
  const bool is_broadcast = purpose == role::subscriber || purpose == role::publisher;
  const std::size_t size = purpose == role::idle ? idle_message_bytes : plan_.message_bytes;
  for (const int fd : network::connect_all(plan_.port, count)) {
    ++connected_;
    slots_.push_back(std::make_unique<slot>(purpose,
                                            make_message(size, is_broadcast ? 0 : connected_),
                                            plan_.is_packed, plan_.in_flight));
    slots_.back()->fd = fd;
    ++open_;
    start(*slots_.back());
  }
}

void load::start(slot& peer) {
  std::string_view path = plan_.is_packed ? "/deflate" : "/echo";
  if (peer.kind == role::subscriber) path = "/topic";
  if (peer.kind == role::publisher) path = "/publish";
  peer.first_out = upgrade_request(plan_.port, path, plan_.is_packed);
  flush(peer);
}

// Takes turns until `done`, a mistake, or a time without a message.
template <class Done>
void load::await(Done done) {
  network::turn_until([this] { turn(); },
                      [this] { return answered_ + upgraded_ + connected_ - open_; },
                      [&] { return wrong_ != 0 || done(); });
}

void load::await_open() {
  await([this] { return upgraded_ == connected_; });
  if (wrong_ == 0 && upgraded_ != connected_) {
    ++wrong_;
    mistake_ = "an upgrade that is not answered";
  }
}

void load::hold(std::size_t count) {
  if (wrong_ != 0) return;
  const std::size_t before = slots_.size();
  open(count, role::idle);
  await_open();
  if (wrong_ != 0) return;
  for (std::size_t i = before; i < slots_.size(); ++i) send_messages(*slots_[i], 1);
  await([this] { return answered_ == requested_; });
}

void load::run(clock::time_point end) {
  running_ = true;
  const std::uint64_t before = answered_;
  if (wrong_ == 0 && plan_.subscribers != 0) {
    publish(plan_.in_flight - static_cast<std::size_t>(published_ - delivered_));
  }
  for (const auto& each : slots_) {
    if (wrong_ == 0 && each->kind == role::echo && each->fd >= 0)
      send_messages(*each, plan_.in_flight - each->outstanding);
  }
  await([&] { return clock::now() >= end && answered_ != before; });
}

void load::finish() {
  running_ = false;
  await([this] { return answered_ == requested_; });
  if (wrong_ != 0 || answered_ != requested_) return;
  for (const auto& each : slots_) {
    each->frames.expect_close();
    each->first_out = close_frame();
    flush(*each);
  }
  await([this] { return open_ == 0; });
  if (wrong_ == 0 && open_ != 0) {
    ++wrong_;
    mistake_ = "a connection that the server does not end";
  }
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

// Publishes messages, each of which all subscribers await.
void load::publish(std::size_t count) {
  const auto publisher = std::ranges::find(slots_, role::publisher, &slot::kind);
  for (std::size_t i = 0; i < count; ++i) {
    awaiting_[published_++ % awaiting_.size()] = plan_.subscribers;
  }
  send_messages(**publisher, count);
}

// Sends messages. A sabotaged one is counted and not sent, or sent and not counted.
void load::send_messages(slot& peer, std::size_t count) {
  const bool publishes = peer.kind == role::publisher;
  if (!publishes) peer.outstanding += count;
  requested_ += publishes ? count * plan_.subscribers : count;
  peer.to_send += count * peer.frame_bytes;
  const bool may_be_sabotaged = count > 0 && peer.kind != role::idle;
  if (plan_.sabotage != fault::none && may_be_sabotaged && !std::exchange(is_sabotaged_, true)) {
    if (plan_.sabotage == fault::lose) {
      peer.to_send -= peer.frame_bytes;
    } else {
      peer.to_send += peer.frame_bytes;
    }
  }
  flush(peer);
}

void load::flush(slot& peer) {
  // A frame that is partly sent is completed before other bytes.
  while (!peer.first_out.empty() || peer.to_send > 0) {
    const bool sends_first = !peer.first_out.empty() && !peer.is_in_frame();
    std::string_view next = peer.first_out;
    if (!sends_first) {
      const std::size_t most = peer.first_out.empty() ? peer.to_send : peer.left_in_frame();
      next = std::string_view(peer.repeated).substr(peer.sent_bytes, most);
    }
    const ssize_t sent = ::send(peer.fd, next.data(), next.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR)
        return fail(peer, "a connection that cannot be written");
      return poll_.watch(peer, EPOLLIN | EPOLLOUT);
    }
    if (sends_first) {
      peer.first_out.erase(0, static_cast<std::size_t>(sent));
    } else {
      peer.to_send -= static_cast<std::size_t>(sent);
      peer.sent_bytes = (peer.sent_bytes + static_cast<std::size_t>(sent)) % peer.repeated.size();
    }
  }
  poll_.watch(peer, EPOLLIN);
}

// Takes the head of the response to the upgrade, and returns the bytes after it.
std::string_view load::take_upgrade(slot& peer, std::string_view data) {
  constexpr std::string_view head_end = "\r\n\r\n";
  const std::size_t before = peer.head.size();
  peer.head += data;
  const std::size_t end = peer.head.find(head_end);
  if (end == std::string::npos) {
    if (peer.head.size() > max_head_bytes) fail(peer, "a head of 8 KiB");
    return {};
  }
  const std::size_t head_bytes = end + head_end.size();
  peer.head.resize(head_bytes);
  const std::string mistake = check_upgrade(peer.head, plan_.is_packed);
  if (!mistake.empty()) {
    fail(peer, mistake);
    return {};
  }
  peer.is_open = true;
  ++upgraded_;
  return data.substr(head_bytes - before);
}

void load::take(slot& peer, std::string_view data) {
  if (!peer.is_open) data = take_upgrade(peer, data);
  if (data.empty()) return;
  const std::size_t count = peer.frames.read(data);
  if (!peer.frames.mistake().empty()) return fail(peer, peer.frames.mistake());
  if (!peer.frames.pongs().empty()) peer.first_out += std::exchange(peer.frames.pongs(), {});
  take_messages(peer, count);
  if (peer.fd >= 0 && !peer.first_out.empty()) flush(peer);
}

void load::take_messages(slot& peer, std::size_t count) {
  const std::uint64_t expected =
      peer.kind == role::subscriber ? published_ - peer.received : peer.outstanding;
  if (count > expected) return fail(peer, "a message that nothing has asked for");
  answered_ += count;
  if (peer.kind != role::subscriber) {
    peer.outstanding -= count;
    if (running_ && count > 0 && peer.kind == role::echo) send_messages(peer, count);
    return;
  }
  std::size_t delivered = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (--awaiting_[peer.received++ % awaiting_.size()] == 0) ++delivered;
  }
  delivered_ += delivered;
  if (running_ && delivered > 0) publish(delivered);
}

void load::ended(slot& peer) {
  if (!peer.may_be_ended()) return fail(peer, "a connection that ends early");
  close_slot(peer);
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

}  // namespace lab::websocket
