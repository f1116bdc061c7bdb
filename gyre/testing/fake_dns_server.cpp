// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/fake_dns_server.hpp>

#include <gyre/base/unique_fd.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>

namespace gyre::testing {
namespace {

constexpr std::size_t header_size = 12;
constexpr unsigned type_a = 1;
constexpr unsigned type_soa = 6;
constexpr unsigned type_ptr = 12;
constexpr unsigned type_txt = 16;
constexpr unsigned type_aaaa = 28;
constexpr unsigned type_srv = 33;
constexpr unsigned class_internet = 1;

std::string name_of_type(unsigned type) {
  switch (type) {
    case type_a: return "A ";
    case type_aaaa: return "AAAA ";
    case type_ptr: return "PTR ";
    case type_txt: return "TXT ";
    case type_srv: return "SRV ";
    default: return std::to_string(type) + ' ';
  }
}

unsigned byte_at(std::string_view message, std::size_t index) {
  return static_cast<unsigned char>(message[index]);
}
unsigned number_at(std::string_view message, std::size_t index) {
  return byte_at(message, index) * 256u + byte_at(message, index + 1);
}
void append_number(std::string& message, std::size_t number) {
  message += static_cast<char>(number >> 8 & 0xff);
  message += static_cast<char>(number & 0xff);
}
void append_long(std::string& message, unsigned number) {
  append_number(message, number >> 16);
  append_number(message, number & 0xffff);
}
void append_name(std::string& message, std::string_view name) {
  while (!name.empty()) {
    const std::string_view label = name.substr(0, name.find('.'));
    (message += static_cast<char>(label.size())) += label;
    name.remove_prefix(std::min(label.size() + 1, name.size()));
  }
  message += '\0';
}
// Appends an SOA record of the root.
void append_soa(std::string& message, unsigned ttl) {
  message += '\0';
  append_number(message, type_soa);
  append_number(message, class_internet);
  append_long(message, ttl);
  append_number(message, 22);
  message.append(18, '\0');  // an SOA record has two names and four numbers
  append_long(message, ttl);
}

/// The first question of a message.
struct question {
  std::string name;
  unsigned type;
  std::string_view bytes;
};
std::optional<question> question_in(std::string_view message) {
  question result{};
  std::size_t position = header_size;
  while (position < message.size() && message[position] != 0) {
    const std::size_t length = byte_at(message, position);
    if (position + 1 + length >= message.size()) return std::nullopt;
    if (!result.name.empty()) result.name += '.';
    result.name += message.substr(position + 1, length);
    position += 1 + length;
  }
  if (position + 5 > message.size()) return std::nullopt;
  result.type = number_at(message, position + 1);
  result.bytes = message.substr(header_size, position + 5 - header_size);
  return result;
}

unsigned response_code(const fake_dns_server::host& host) {
  switch (host.reply) {
    case fake_dns_server::reply_kind::server_failure: return 2;
    case fake_dns_server::reply_kind::refused: return 5;
    default: return host.exists ? 0 : 3;
  }
}

/// Returns the data of the host's records of this type.
std::vector<std::string> records_of(const fake_dns_server::host& host, unsigned type) {
  std::vector<std::string> data;
  for (const net::ip_address& address : host.addresses) {
    if (type == (address.is_v4() ? type_a : type_aaaa)) {
      data.emplace_back(address.bytes().begin(), address.bytes().end());
    }
  }
  for (const fake_dns_server::record& text_record : host.records) {
    if (text_record.type == type) data.push_back(text_record.data);
  }
  return data;
}

net::socket bind_udp() {
  auto socket = net::socket::open(net::address_family::ipv4, net::socket_type::datagram);
  socket.bind({net::ip_address::loopback_v4(), 0});
  return socket;
}
// Opens a TCP socket at the port of `udp`. If the port is in use, moves both sockets to another
// port.
net::socket bind_tcp(net::socket& udp) {
  for (;;) {
    auto socket = net::socket::open(net::address_family::ipv4, net::socket_type::stream);
    try {
      socket.set_reuse_address(true);
      socket.bind(udp.local_endpoint());
      socket.listen();
      return socket;
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::address_in_use) throw;
      udp = bind_udp();
    }
  }
}

}  // namespace

fake_dns_server::connection::connection(fake_dns_server& server, net::socket client_socket)
    : socket(std::move(client_socket)),
      watch(server.loop_, socket.fd(), [this, &server](readiness) { server.serve_tcp(*this); }) {
  watch.start(readiness::readable);
}

fake_dns_server::fake_dns_server(event_loop& loop)
    : loop_(loop), udp_(bind_udp()), tcp_(bind_tcp(udp_)) {
  watch_udp_.emplace(loop_, udp_.fd(), [this](readiness) { serve_udp(); });
  watch_udp_->start(readiness::readable);
  watch_tcp_.emplace(loop_, tcp_.fd(), [this](readiness) { accept(); });
  watch_tcp_->start(readiness::readable);
}

fake_dns_server::record fake_dns_server::srv(unsigned priority, unsigned weight, unsigned port,
                                             std::string_view target) {
  record result{type_srv, {}};
  for (const unsigned number : {priority, weight, port}) append_number(result.data, number);
  append_name(result.data, target);
  return result;
}
fake_dns_server::record fake_dns_server::txt(const std::vector<std::string>& parts) {
  record result{type_txt, {}};
  for (const std::string& part : parts) (result.data += static_cast<char>(part.size())) += part;
  return result;
}
fake_dns_server::record fake_dns_server::ptr(std::string_view name) {
  record result{type_ptr, {}};
  append_name(result.data, name);
  return result;
}

void fake_dns_server::release() {
  held_prefix_.reset();
  for (const auto& [reply_bytes, client] : std::exchange(held_replies_, {}))
    send(reply_bytes, client);
}

void fake_dns_server::serve_udp() {
  std::array<char, 2048> room;
  net::endpoint client;
  for (;;) {
    socklen_t size = net::endpoint::capacity();
    const ssize_t length = ::recvfrom(udp_.fd(), room.data(), room.size(), 0, client.data(), &size);
    if (length < 0) return;
    client.resize(size);
    const auto reply_bytes = reply_to({room.data(), static_cast<std::size_t>(length)}, true);
    if (!reply_bytes) continue;
    if (held_prefix_ && questions_.back().starts_with(*held_prefix_)) {
      held_replies_.emplace_back(*reply_bytes, client);
    } else {
      send(*reply_bytes, client);
    }
  }
}

void fake_dns_server::send(const std::string& reply_bytes, const net::endpoint& client) {
  ::sendto(udp_.fd(), reply_bytes.data(), reply_bytes.size(), 0, client.data(), client.size());
  if (std::exchange(resets_tcp_, false)) reset_tcp();
}

void fake_dns_server::reset_tcp() {
  for (const connection& target : connections_) {
    target.socket.shutdown(net::shutdown_side::send);
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(target.socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  connections_.clear();
}

void fake_dns_server::accept() {
  unique_fd connection_fd(::accept4(tcp_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection_fd) connections_.emplace_back(*this, net::socket(std::move(connection_fd)));
}

void fake_dns_server::serve_tcp(connection& client) {
  const auto drop = [&] {
    connections_.remove_if([&](const connection& candidate) { return &candidate == &client; });
  };
  std::array<char, 2048> room;
  const ssize_t length = ::read(client.socket.fd(), room.data(), room.size());
  if (length <= 0) return drop();
  client.input.append(room.data(), static_cast<std::size_t>(length));
  while (client.input.size() >= 2 && client.input.size() >= 2 + number_at(client.input, 0)) {
    const std::string message = client.input.substr(2, number_at(client.input, 0));
    client.input.erase(0, 2 + message.size());
    ++tcp_questions_;
    const auto reply_bytes = reply_to(message, false);
    if (!reply_bytes) continue;
    std::string frame;
    append_number(frame, reply_bytes->size());
    frame += *reply_bytes;
    // A single send is enough, because a few replies fit into the socket's buffer.
    const ssize_t count = ::send(client.socket.fd(), frame.data(), frame.size(), MSG_NOSIGNAL);
    if (count != static_cast<ssize_t>(frame.size())) return drop();
  }
}

std::optional<std::string> fake_dns_server::reply_to(std::string_view message, bool by_udp) {
  const std::optional<question> query = question_in(message);
  if (!query) return std::nullopt;
  questions_.push_back(name_of_type(query->type) + query->name);
  const auto entry = hosts_.find(query->name);
  const host answering_host = entry == hosts_.end() ? host{.exists = false} : entry->second;
  if (answering_host.reply == reply_kind::none) return std::nullopt;

  std::vector<std::string> records = records_of(answering_host, query->type);
  const bool is_truncated = answering_host.reply == reply_kind::truncated && by_udp;
  if (is_truncated) records.clear();
  const bool has_soa = records.empty() && answering_host.negative_ttl;

  std::string reply_bytes(message.substr(0, 2));
  append_number(reply_bytes,
                0x8180u | (is_truncated ? 0x200u : 0u) | response_code(answering_host));
  append_number(reply_bytes, 1);
  append_number(reply_bytes, records.size());
  append_number(reply_bytes, has_soa ? 1 : 0);
  append_number(reply_bytes, 0);
  reply_bytes += query->bytes;
  for (const std::string& text : records) {
    append_number(reply_bytes,
                  0xc000u | header_size);  // a pointer to the name of the question
    append_number(reply_bytes, query->type);
    append_number(reply_bytes, class_internet);
    append_long(reply_bytes, answering_host.ttl);
    append_number(reply_bytes, text.size());
    reply_bytes += text;
  }
  if (has_soa) append_soa(reply_bytes, *answering_host.negative_ttl);
  if (answering_host.reply == reply_kind::malformed) {
    reply_bytes.replace(6, 2, "\xff\xff");  // the counts announce records that are missing
    reply_bytes += "\xc0\xff garbage";
  }
  return reply_bytes;
}

}  // namespace gyre::testing
