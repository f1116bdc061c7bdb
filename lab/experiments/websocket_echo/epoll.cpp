// SPDX-License-Identifier: Apache-2.0
// The floor: epoll, one receive buffer, one output buffer, and the least of WebSocket. It accepts
// the one key of the lab's client, checks nothing, knows no control frame but Close, has no time
// limits, and waits for nobody.
#include <lab/harness/network/socket.hpp>
#include <lab/harness/websocket/workload.hpp>

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

enum class purpose { upgrade, echo, topic, publish };

struct connection {
  int fd;
  purpose kind = purpose::upgrade;
  bool has_closed = false;
  bool is_waiting = false;  // whether it waits until it can be written
  std::string in = {};      // the beginning of an incomplete frame
  std::string out = {};     // bytes that wait to be sent
};

class server {
 public:
  explicit server(int listener)
      : listener_(listener),
        epoll_(lab::network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        buffer_(std::size_t{1} << 18, '\0') {
    watch(EPOLL_CTL_ADD, listener, EPOLLIN, nullptr);
  }

  void run() {
    std::array<epoll_event, 512> events;
    for (;;) {
      const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.ptr == nullptr) {
          accept_all();
        } else {
          serve(*static_cast<connection*>(event.data.ptr));
        }
      }
    }
  }

 private:
  void watch(int change, int fd, std::uint32_t events, void* data) {
    epoll_event event{.events = events, .data = {.ptr = data}};
    lab::network::checked(epoll_ctl(epoll_, change, fd, &event), "epoll_ctl");
  }

  void accept_all() {
    for (;;) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const auto index = static_cast<std::size_t>(fd);
      if (connections_.size() <= index) connections_.resize(index + 1);
      connections_[index] = std::make_unique<connection>(connection{.fd = fd});
      watch(EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, connections_[index].get());
    }
  }

  void end(connection& peer) {
    std::erase(topic_, &peer);
    const auto index = static_cast<std::size_t>(peer.fd);
    close(peer.fd);
    connections_[index].reset();
  }

  void serve(connection& peer) {
    if (peer.is_waiting) flush(peer, {});
    for (;;) {
      const ssize_t got = recv(peer.fd, buffer_.data(), buffer_.size(), 0);
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return end(peer);
      const auto size = static_cast<std::size_t>(got);
      out_.clear();
      if (peer.in.empty()) {
        const std::size_t used = take_all(peer, buffer_.data(), size);
        peer.in.assign(buffer_.data() + used, size - used);
      } else {
        peer.in.append(buffer_.data(), size);
        peer.in.erase(0, take_all(peer, peer.in.data(), peer.in.size()));
      }
      flush(peer, out_);
      if (peer.has_closed && !peer.is_waiting) return end(peer);
      if (size < buffer_.size()) return;
    }
  }

  // Takes whole frames, and returns their size.
  std::size_t take_all(connection& peer, char* data, std::size_t size) {
    std::size_t used = 0;
    while (const std::size_t one = take_one(peer, data + used, size - used)) used += one;
    return used;
  }

  std::size_t take_one(connection& peer, char* data, std::size_t size) {
    if (peer.kind == purpose::upgrade) return upgrade(peer, {data, size});
    if (size < 6) return 0;
    std::size_t length = static_cast<unsigned char>(data[1]) & 0x7FU;
    const std::size_t length_bytes = length < 126 ? 0 : (length == 126 ? 2 : 8);
    const std::size_t head_bytes = 2 + length_bytes + 4;
    if (size < head_bytes) return 0;
    if (length_bytes != 0) length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) {
      length = length << 8U | static_cast<unsigned char>(data[2 + i]);
    }
    if (size - head_bytes < length) return 0;
    char* const payload = data + head_bytes;
    unmask(payload, length, payload - 4);
    if ((static_cast<unsigned char>(data[0]) & 0x0FU) == 8) peer.has_closed = true;
    if (peer.kind == purpose::publish && !peer.has_closed) {
      publish({payload, length});
    } else {
      append_frame(out_, data[0], {payload, length});
    }
    return head_bytes + length;
  }

  static void unmask(char* payload, std::size_t size, const char* mask) {
    std::uint32_t key = 0;
    std::memcpy(&key, mask, sizeof key);
    const std::uint64_t wide_key = std::uint64_t{key} << 32U | key;
    std::size_t i = 0;
    for (; i + sizeof wide_key <= size; i += sizeof wide_key) {
      std::uint64_t word = 0;
      std::memcpy(&word, payload + i, sizeof word);
      word ^= wide_key;
      std::memcpy(payload + i, &word, sizeof word);
    }
    for (; i < size; ++i) payload[i] = static_cast<char>(payload[i] ^ mask[i % 4]);
  }

  static void append_frame(std::string& out, char first, std::string_view payload) {
    out += first;
    if (payload.size() < 126) {
      out += static_cast<char>(payload.size());
    } else {
      const std::size_t length_bytes = payload.size() <= 0xFFFF ? 2 : 8;
      out += static_cast<char>(length_bytes == 2 ? 126 : 127);
      for (std::size_t i = length_bytes; i-- > 0;) {
        out += static_cast<char>((std::uint64_t{payload.size()} >> (8 * i)) & 0xFFU);
      }
    }
    out += payload;
  }

  std::size_t upgrade(connection& peer, std::string_view data) {
    const std::size_t end = data.find("\r\n\r\n");
    if (end == std::string_view::npos) return 0;
    peer.kind = purpose::echo;
    if (data.starts_with("GET /topic ")) {
      peer.kind = purpose::topic;
      topic_.push_back(&peer);
    }
    if (data.starts_with("GET /publish ")) peer.kind = purpose::publish;
    out_ +=
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    return end + 4;
  }

  void publish(std::string_view message) {
    std::string frame;
    append_frame(frame, '\x82', message);
    for (connection* const each : topic_) flush(*each, frame);
  }

  // Sends `bytes` after those that wait, and keeps what the kernel does not take.
  void flush(connection& peer, std::string_view bytes) {
    if (!peer.out.empty()) {
      peer.out += bytes;
      bytes = peer.out;
    }
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t taken = send(peer.fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (taken < 0) break;
      sent += static_cast<std::size_t>(taken);
    }
    if (peer.out.empty()) {
      peer.out = bytes.substr(sent);
    } else {
      peer.out.erase(0, sent);
    }
    if (peer.out.empty() == !peer.is_waiting) return;
    peer.is_waiting = !peer.out.empty();
    watch(EPOLL_CTL_MOD, peer.fd, EPOLLET | EPOLLIN | (peer.is_waiting ? EPOLLOUT : 0U), &peer);
  }

  int listener_;
  int epoll_;
  std::string buffer_;
  std::string out_;
  std::vector<std::unique_ptr<connection>> connections_;  // by descriptor
  std::vector<connection*> topic_;
};

struct epoll_server {
  static void serve(int listener) { server(listener).run(); }
};

}  // namespace

int main(int argc, char** argv) { lab::websocket::contender_main<epoll_server>(argc, argv); }
