// SPDX-License-Identifier: Apache-2.0
// A name server on the loopback interface, on the loop of the test, that says what the test wants.
#pragma once

#include <gtest/gtest.h>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

#include <sys/socket.h>
#include <unistd.h>

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

/// Answers questions for A and AAAA by UDP, and by TCP at the same port. Names it does not know do
/// not exist.
class fake_dns_server {
 public:
  enum class manner { properly, refusing, failing, silently, cut_off_by_udp, with_garbage };
  struct host {
    std::vector<net::ip_address> addresses = {};
    fake_dns_server::manner manner = manner::properly;
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
  /// Questions that came, as "A example.org".
  const std::vector<std::string>& asked() const { return asked_; }
  std::size_t asked_by_tcp() const { return asked_by_tcp_; }

  /// From now on answers wait until release().
  void hold() { holds_ = true; }
  std::size_t held() const { return held_.size(); }
  void release() {
    holds_ = false;
    for (const auto& [answer, to] : std::exchange(held_, {})) send(answer, to);
  }

 private:
  static constexpr std::size_t header_size = 12;
  static constexpr unsigned type_a = 1;
  static constexpr unsigned type_aaaa = 28;

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
  // At the port of `udp`, or, if somebody has that, both at another.
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
      if (holds_) {
        held_.emplace_back(*answer, from);
      } else {
        send(*answer, from);
      }
    }
  }
  void send(const std::string& answer, const net::endpoint& to) const {
    ::sendto(udp_.fd(), answer.data(), answer.size(), 0, to.data(), to.size());
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
    asked_.push_back((type == type_a ? "A " : "AAAA ") + name);
    const auto known = hosts_.find(name);
    const host answered = known == hosts_.end() ? host() : known->second;
    if (answered.manner == manner::silently) return std::nullopt;

    std::vector<net::ip_address> addresses;
    for (const auto& each : answered.addresses) {
      if (each.is_v4() == (type == type_a)) addresses.push_back(each);
    }
    const bool cut_off = answered.manner == manner::cut_off_by_udp && by_udp;
    if (cut_off) addresses.clear();
    const unsigned code = answered.manner == manner::failing    ? 2
                          : answered.manner == manner::refusing ? 5
                          : known == hosts_.end()               ? 3
                                                                : 0;
    std::string answer(message.substr(0, 2));
    append_number(answer, 0x8180u | (cut_off ? 0x200u : 0u) | code);
    append_number(answer, 1);
    append_number(answer, addresses.size());
    append_number(answer, 0);
    append_number(answer, 0);
    answer += message.substr(header_size, at + 5 - header_size);
    for (const auto& each : addresses) {
      append_number(answer, 0xc000u | header_size);  // the name: that of the question
      append_number(answer, type);
      append_number(answer, 1);  // Internet
      append_number(answer, 0);
      append_number(answer, 60);  // seconds that it may be kept
      append_number(answer, each.bytes().size());
      answer.append(each.bytes().begin(), each.bytes().end());
    }
    if (answered.manner == manner::with_garbage) {
      answer.replace(6, 2, "\xff\xff");  // records that are not there
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
  std::vector<std::string> asked_;
  std::size_t asked_by_tcp_ = 0;
  bool holds_ = false;
  std::vector<std::pair<std::string, net::endpoint>> held_;
};

}  // namespace gyre::test
