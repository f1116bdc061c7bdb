// SPDX-License-Identifier: Apache-2.0
// The floor: epoll, one receive buffer, and answers of fixed bytes. It finds the ends of requests,
// and nothing else in them but the length of a body; it checks nothing, and has no time limits.
#include <lab/harness/http/workload.hpp>
#include <lab/harness/network/socket.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using lab::http::site;

struct connection {
  int fd;
  std::string in = {};   // the beginning of a request
  std::string out = {};  // bytes that wait to be sent
  off_t file_at = -1;    // the place in the file that is being sent
  bool closes = false;   // after the answer
  bool waiting = false;  // until it can be written
};

class server {
 public:
  server(int listener, const site& site)
      : listener_(listener),
        file_(site.file),
        epoll_(lab::network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        hello_(head(lab::http::text_type, lab::http::hello.size())),
        file_head_(head(lab::http::bytes_type, lab::http::file_bytes)) {
    hello_ += lab::http::hello;
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
          serve(*static_cast<connection*>(event.data.ptr), event.events);
        }
      }
    }
  }

 private:
  static std::string head(std::string_view type, std::size_t size) {
    std::string text = "HTTP/1.1 200 OK\r\nDate: ";
    text += lab::http::cached_date();
    text += "\r\nContent-Type: ";
    text += type;
    text += "\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n";
    return text;
  }

  void watch(int change, int fd, std::uint32_t events, void* data) {
    epoll_event wanted{.events = events, .data = {.ptr = data}};
    lab::network::checked(epoll_ctl(epoll_, change, fd, &wanted), "epoll_ctl");
  }

  void accept_all() {
    for (;;) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const auto index = static_cast<std::size_t>(fd);
      if (connections_.size() <= index) connections_.resize(index + 1);
      connections_[index] = std::make_unique<connection>(connection{.fd = fd});
      watch(EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP | EPOLLET, connections_[index].get());
    }
  }

  void end(connection& peer) {
    const auto index = static_cast<std::size_t>(peer.fd);
    close(peer.fd);
    connections_[index].reset();
  }

  void serve(connection& peer, std::uint32_t events) {
    if (peer.waiting && !flush(peer)) return;
    for (;;) {
      const ssize_t got = recv(peer.fd, buffer_.data(), buffer_.size(), 0);
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return end(peer);
      const auto size = static_cast<std::size_t>(got);
      if (!answer(peer, {buffer_.data(), size})) return;
      if (size < buffer_.size() && (events & EPOLLRDHUP) == 0) return;
    }
  }

  // Returns false if the connection has ended.
  bool answer(connection& peer, std::string_view data) {
    if (!peer.in.empty()) {
      peer.in += data;
      data = peer.in;
    }
    const std::size_t before = data.size();
    while (const std::size_t size = answer_one(peer, data)) data.remove_prefix(size);
    if (peer.in.empty()) {
      peer.in = data;
    } else {
      peer.in.erase(0, before - data.size());
    }
    return flush(peer);
  }

  // Appends the answer to the first request, and returns its size, or 0 if it is not whole.
  std::size_t answer_one(connection& peer, std::string_view data) {
    const std::size_t end = data.find("\r\n\r\n");
    if (end == std::string_view::npos) return 0;
    const std::size_t size = end + 4;
    if (data.starts_with("POST")) return echo(peer, data, size);
    std::string& out = peer.out.empty() ? out_ : peer.out;
    peer.closes = does_close(data.substr(0, size));
    if (data.starts_with("GET /json")) {
      const std::string text = lab::http::make_json();
      put_head(out, head(lab::http::json_type, text.size()), peer.closes);
      out += text;
    } else if (data.starts_with("GET /file")) {
      put_head(out, file_head_, peer.closes);
      peer.file_at = 0;
    } else if (peer.closes) {
      put_head(out, std::string_view(hello_).substr(0, hello_.size() - lab::http::hello.size()),
               true);
      out += lab::http::hello;
    } else {
      out += hello_;
    }
    return size;
  }

  // Fields as long as those of a request that did not close are taken for the same.
  bool does_close(std::string_view fields) {
    if (fields.size() == kept_size_) return false;
    if (fields.contains("Connection: close")) return true;
    kept_size_ = fields.size();
    return false;
  }

  static void put_head(std::string& out, std::string_view text, bool closes) {
    out += closes ? text.substr(0, text.size() - 2) : text;
    if (closes) out += "Connection: close\r\n\r\n";
  }

  std::size_t echo(connection& peer, std::string_view data, std::size_t head_size) {
    constexpr std::string_view name = "Content-Length: ";
    const std::string_view fields = data.substr(0, head_size);
    const std::size_t at = fields.find(name);
    if (at == std::string_view::npos) return 0;
    std::size_t length = 0;
    std::from_chars(fields.data() + at + name.size(), fields.data() + fields.size(), length);
    if (data.size() < head_size + length) return 0;
    std::string& out = peer.out.empty() ? out_ : peer.out;
    if (length != echo_length_) {
      echo_length_ = length;
      echo_head_ = head(lab::http::bytes_type, length);
    }
    peer.closes = does_close(fields);
    put_head(out, echo_head_, peer.closes);
    out += data.substr(head_size, length);
    return head_size + length;
  }

  // Sends what there is; returns false if the connection has ended.
  bool flush(connection& peer) {
    std::string& out = peer.out.empty() ? out_ : peer.out;
    if (!out.empty()) {
      const int more = peer.file_at >= 0 ? MSG_MORE : 0;
      const ssize_t sent = ::send(peer.fd, out.data(), out.size(), MSG_NOSIGNAL | more);
      if (sent < 0 && errno != EAGAIN) return fail(peer);
      const std::size_t gone = sent < 0 ? 0 : static_cast<std::size_t>(sent);
      if (gone < out.size()) {
        std::string rest = out.substr(gone);
        out.clear();
        peer.out = std::move(rest);
        return wait(peer);
      }
      out.clear();
    }
    while (peer.file_at >= 0) {
      const auto left = lab::http::file_bytes - static_cast<std::size_t>(peer.file_at);
      if (left == 0) {
        peer.file_at = -1;
      } else if (sendfile(peer.fd, file_, &peer.file_at, left) < 0) {
        return errno == EAGAIN ? wait(peer) : fail(peer);
      }
    }
    if (peer.closes) return fail(peer);
    if (peer.waiting) {
      peer.waiting = false;
      watch(EPOLL_CTL_MOD, peer.fd, EPOLLIN | EPOLLRDHUP | EPOLLET, &peer);
    }
    return true;
  }

  bool wait(connection& peer) {
    if (peer.waiting) return true;
    peer.waiting = true;
    watch(EPOLL_CTL_MOD, peer.fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &peer);
    return true;
  }

  bool fail(connection& peer) {
    out_.clear();
    end(peer);
    return false;
  }

  int listener_;
  int file_;
  int epoll_;
  std::vector<std::unique_ptr<connection>> connections_;  // by descriptor
  std::string hello_;
  std::string file_head_;
  std::string echo_head_;  // that of the last length
  std::size_t echo_length_ = 0;
  std::size_t kept_size_ = 0;  // of the fields of a request
  std::string out_;            // the answers of a turn of one connection
  std::array<char, std::size_t{64} << 10> buffer_;
};

struct epoll_floor {
  static constexpr bool is_floor = true;

  static void serve(int listener, const site& site) {
    static server running(listener, site);
    running.run();
  }
};

}  // namespace

int main(int argc, char** argv) { lab::http::contender_main<epoll_floor>(argc, argv); }
