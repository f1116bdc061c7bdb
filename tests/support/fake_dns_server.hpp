// SPDX-License-Identifier: Apache-2.0
// A name server on the loopback interface, on the loop of the test, with scripted answers.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::test {

/// Answers questions by UDP, and by TCP at the same port. Unknown names do not exist.
class fake_dns_server {
 public:
  enum class manner { properly, refusing, failing, silently, cut_off_by_udp, with_garbage };
  struct record {
    unsigned type;
    std::string data;
  };
  struct host {
    std::vector<net::ip_address> addresses = {};
    fake_dns_server::manner manner = manner::properly;
    unsigned ttl = 60;
    /// The time for which the absence of a record may be cached; none: the answer does not say.
    std::optional<unsigned> negative_ttl = {};
    /// Sent in answers to questions for their type.
    std::vector<record> records = {};
    bool exists = true;
  };

  explicit fake_dns_server(event_loop& loop)
      : loop_(loop), udp_(bound_udp()), tcp_(bound_tcp(udp_)) {
    watch_udp_.emplace(loop_, udp_.fd(), [this](readiness) { serve_udp(); });
    watch_udp_->start(readiness::readable);
    watch_tcp_.emplace(loop_, tcp_.fd(), [this](readiness) { accept(); });
    watch_tcp_->start(readiness::readable);
  }

  net::endpoint at() const { return udp_.local_endpoint(); }
  host& operator[](const std::string& name) { return hosts_[name]; }
  /// Records, with names as "www.example.org".
  static record srv(unsigned priority, unsigned weight, unsigned port, std::string_view target) {
    record made{type_srv, {}};
    for (const unsigned each : {priority, weight, port}) append_number(made.data, each);
    append_name(made.data, target);
    return made;
  }
  static record txt(const std::vector<std::string>& parts) {
    record made{type_txt, {}};
    for (const std::string& each : parts) (made.data += static_cast<char>(each.size())) += each;
    return made;
  }
  static record ptr(std::string_view name) {
    record made{type_ptr, {}};
    append_name(made.data, name);
    return made;
  }

  /// The questions received so far, as "A example.org".
  const std::vector<std::string>& questions() const { return questions_; }
  std::size_t asked_by_tcp() const { return asked_by_tcp_; }

  /// After the next UDP answer, the server resets its TCP connections, which it has shut down
  /// before: the next write to one of them fails with EPIPE.
  void reset_tcp_after_next_answer() { resets_tcp_ = true; }
  std::size_t tcp_connections() const { return connections_.size(); }

  /// From now on, answers to questions that begin with `prefix` ("AAAA ") wait until release().
  void hold(std::string prefix = "") { holds_ = std::move(prefix); }
  std::size_t held() const { return held_.size(); }
  void release() {
    holds_.reset();
    for (const auto& [answer, to] : std::exchange(held_, {})) send(answer, to);
  }

 private:
  static constexpr std::size_t header_size = 12;
  static constexpr unsigned type_a = 1;
  static constexpr unsigned type_soa = 6;
  static constexpr unsigned type_ptr = 12;
  static constexpr unsigned type_txt = 16;
  static constexpr unsigned type_aaaa = 28;
  static constexpr unsigned type_srv = 33;

  static std::string name_of_type(unsigned type) {
    switch (type) {
      case type_a: return "A ";
      case type_aaaa: return "AAAA ";
      case type_ptr: return "PTR ";
      case type_txt: return "TXT ";
      case type_srv: return "SRV ";
      default: return std::to_string(type) + ' ';
    }
  }
  static void append_name(std::string& text, std::string_view name) {
    while (!name.empty()) {
      const std::string_view label = name.substr(0, name.find('.'));
      (text += static_cast<char>(label.size())) += label;
      name.remove_prefix(std::min(label.size() + 1, name.size()));
    }
    text += '\0';
  }
  // An SOA record of the root.
  static void append_soa(std::string& text, unsigned ttl) {
    text += '\0';
    append_number(text, type_soa);
    append_number(text, 1);
    append_number(text, ttl >> 16);
    append_number(text, ttl & 0xffff);
    append_number(text, 22);
    text.append(18, '\0');  // two names, four numbers
    append_number(text, ttl >> 16);
    append_number(text, ttl & 0xffff);
  }

  struct connection {
    connection(fake_dns_server& server, net::socket accepted)
        : socket(std::move(accepted)), watch(server.loop_, socket.fd(), [this, &server](readiness) {
            server.serve_tcp(*this);
          }) {
      watch.start(readiness::readable);
    }
    net::socket socket;
    std::string input;
    fd_watch watch;
  };

  static net::socket bound_udp() {
    auto socket = net::socket::open(net::address_family::ipv4, net::socket_type::datagram);
    socket.bind({net::ip_address::loopback_v4(), 0});
    return socket;
  }
  // A TCP socket at the port of `udp`; if that port is taken, both sockets move to another one.
  static net::socket bound_tcp(net::socket& udp) {
    for (;;) {
      auto socket = net::socket::open(net::address_family::ipv4, net::socket_type::stream);
      try {
        socket.set_reuse_address(true);
        socket.bind(udp.local_endpoint());
        socket.listen();
        return socket;
      } catch (const std::system_error& error) {
        if (error.code() != std::errc::address_in_use) throw;
        udp = bound_udp();
      }
    }
  }

  static unsigned number_at(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]) * 256u + static_cast<unsigned char>(text[at + 1]);
  }
  static void append_number(std::string& text, std::size_t number) {
    text += static_cast<char>(number >> 8 & 0xff);
    text += static_cast<char>(number & 0xff);
  }

  void serve_udp() {
    std::array<char, 2048> room;
    net::endpoint from;
    for (;;) {
      socklen_t size = net::endpoint::capacity();
      const ssize_t length = ::recvfrom(udp_.fd(), room.data(), room.size(), 0, from.data(), &size);
      if (length < 0) return;
      from.resize(size);
      const auto answer = reply({room.data(), static_cast<std::size_t>(length)}, true);
      if (!answer) continue;
      if (holds_ && questions_.back().starts_with(*holds_)) {
        held_.emplace_back(*answer, from);
      } else {
        send(*answer, from);
      }
    }
  }
  void send(const std::string& answer, const net::endpoint& to) {
    ::sendto(udp_.fd(), answer.data(), answer.size(), 0, to.data(), to.size());
    if (std::exchange(resets_tcp_, false)) reset_tcp();
  }
  void reset_tcp() {
    for (const connection& each : connections_) {
      each.socket.shutdown(net::shutdown_side::send);
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(each.socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    connections_.clear();
  }

  void accept() {
    unique_fd accepted(::accept4(tcp_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted) connections_.emplace_back(*this, net::socket(std::move(accepted)));
  }
  void serve_tcp(connection& from) {
    std::array<char, 2048> room;
    const ssize_t length = ::read(from.socket.fd(), room.data(), room.size());
    if (length <= 0) {
      connections_.remove_if([&](const connection& each) { return &each == &from; });
      return;
    }
    from.input.append(room.data(), static_cast<std::size_t>(length));
    while (from.input.size() >= 2 && from.input.size() >= 2 + number_at(from.input, 0)) {
      const std::string question = from.input.substr(2, number_at(from.input, 0));
      from.input.erase(0, 2 + question.size());
      ++asked_by_tcp_;
      if (const auto answer = reply(question, false)) {
        std::string framed;
        append_number(framed, answer->size());
        framed += *answer;
        EXPECT_EQ(::write(from.socket.fd(), framed.data(), framed.size()),
                  static_cast<ssize_t>(framed.size()));
      }
    }
  }

  std::optional<std::string> reply(std::string_view message, bool by_udp) {
    std::string name;
    std::size_t at = header_size;
    for (; message[at] != 0; at += 1 + static_cast<unsigned char>(message[at])) {
      if (!name.empty()) name += '.';
      name += message.substr(at + 1, static_cast<unsigned char>(message[at]));
    }
    const unsigned type = number_at(message, at + 1);
    questions_.push_back(name_of_type(type) + name);
    const auto known = hosts_.find(name);
    const host answered = known == hosts_.end() ? host{.exists = false} : known->second;
    if (answered.manner == manner::silently) return std::nullopt;

    std::vector<std::string> answers;
    for (const auto& each : answered.addresses) {
      if (type == (each.is_v4() ? type_a : type_aaaa)) {
        answers.emplace_back(each.bytes().begin(), each.bytes().end());
      }
    }
    for (const record& each : answered.records) {
      if (each.type == type) answers.push_back(each.data);
    }
    const bool cut_off = answered.manner == manner::cut_off_by_udp && by_udp;
    if (cut_off) answers.clear();
    const bool has_soa = answers.empty() && answered.negative_ttl;
    const unsigned code = answered.manner == manner::failing    ? 2
                          : answered.manner == manner::refusing ? 5
                          : !answered.exists                    ? 3
                                                                : 0;
    std::string answer(message.substr(0, 2));
    append_number(answer, 0x8180u | (cut_off ? 0x200u : 0u) | code);
    append_number(answer, 1);
    append_number(answer, answers.size());
    append_number(answer, has_soa ? 1 : 0);
    append_number(answer, 0);
    answer += message.substr(header_size, at + 5 - header_size);
    for (const std::string& each : answers) {
      append_number(answer, 0xc000u | header_size);  // the name: a pointer to the question's
      append_number(answer, type);
      append_number(answer, 1);  // Internet
      append_number(answer, answered.ttl >> 16);
      append_number(answer, answered.ttl & 0xffff);
      append_number(answer, each.size());
      answer += each;
    }
    if (has_soa) append_soa(answer, *answered.negative_ttl);
    if (answered.manner == manner::with_garbage) {
      answer.replace(6, 2, "\xff\xff");  // counts of records that are missing
      answer += "\xc0\xff garbage";
    }
    return answer;
  }

  event_loop& loop_;
  net::socket udp_;
  net::socket tcp_;
  std::optional<fd_watch> watch_udp_;
  std::optional<fd_watch> watch_tcp_;
  std::list<connection> connections_;
  std::map<std::string, host> hosts_;
  std::vector<std::string> questions_;
  std::size_t asked_by_tcp_ = 0;
  std::optional<std::string> holds_;
  bool resets_tcp_ = false;
  std::vector<std::pair<std::string, net::endpoint>> held_;
};

}  // namespace gyre::test
