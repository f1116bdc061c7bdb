// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/datagram_socket.hpp>

#include <gyre/base/error.hpp>
#include <gyre/base/unique_fd.hpp>

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

namespace gyre::net {

namespace detail {
namespace {

// Unix sockets' peers may have sent unwanted descriptors.
void close_descriptors(const cmsghdr& sent) noexcept {
  const std::size_t count = (sent.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(&sent) + i * sizeof fd, sizeof fd);
    unique_fd(fd).reset();
  }
}

bool is(const cmsghdr& control, int level, int type) noexcept {
  return control.cmsg_level == level && control.cmsg_type == type;
}

// Data that was cut off has zeros for the rest.
template <class Data>
Data data_of(const cmsghdr& control) noexcept {
  Data data{};
  const std::size_t size = control.cmsg_len - std::min<std::size_t>(control.cmsg_len, CMSG_LEN(0));
  std::memcpy(&data, CMSG_DATA(&control), std::min(size, sizeof data));
  return data;
}

template <class Data>
void append(msghdr& message, int level, int type, const Data& data) noexcept {
  const std::size_t before = message.msg_controllen;
  message.msg_controllen = before + CMSG_SPACE(sizeof data);
  auto* const added = reinterpret_cast<cmsghdr*>(static_cast<char*>(message.msg_control) + before);
  added->cmsg_level = level;
  added->cmsg_type = type;
  added->cmsg_len = CMSG_LEN(sizeof data);
  std::memcpy(CMSG_DATA(added), &data, sizeof data);
}

// `ipi_spec_dst` is the address to reply from also where the datagram was a broadcast or multicast.
std::optional<ip_address> source_of(const in_pktinfo& info, const endpoint& peer) noexcept {
  ip_address::v4_bytes bytes;
  std::memcpy(bytes.data(), &info.ipi_spec_dst, bytes.size());
  if (peer.family() == address_family::ipv4) return ip_address(bytes);
  ip_address::v6_bytes mapped{};
  mapped[10] = mapped[11] = 0xff;
  std::ranges::copy(bytes, mapped.begin() + 12);
  return ip_address(mapped);
}

std::optional<ip_address> source_of(const in6_pktinfo& info) noexcept {
  ip_address::v6_bytes bytes;
  std::memcpy(bytes.data(), &info.ipi6_addr, bytes.size());
  const ip_address arrived(bytes);
  if (arrived.is_multicast()) return std::nullopt;
  return arrived.is_link_local() && !arrived.is_v4_mapped() ? ip_address(bytes, info.ipi6_ifindex)
                                                            : arrived;
}

// See send_without_waiting().
bool cannot_wait(const msghdr& message) noexcept {
  return message.msg_name != nullptr &&
         static_cast<const sockaddr*>(message.msg_name)->sa_family == AF_UNIX;
}

}  // namespace

message_properties read_control(const msghdr& message, endpoint& peer) noexcept {
  auto& header = const_cast<msghdr&>(message);  // the macros only read it
  std::size_t segment = 0;
  std::optional<ip_address> source;
  for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) close_descriptors(*each);
    if (is(*each, IPPROTO_UDP, UDP_GRO)) segment = static_cast<std::size_t>(data_of<int>(*each));
    if (is(*each, IPPROTO_IP, IP_PKTINFO)) source = source_of(data_of<in_pktinfo>(*each), peer);
    // After an IPv4 datagram there are both on an IPv6 socket.
    if (is(*each, IPPROTO_IPV6, IPV6_PKTINFO) && !source) {
      source = source_of(data_of<in6_pktinfo>(*each));
    }
  }
  peer.set_source(source);
  const bool control_cut = peer.is_ip() && (message.msg_flags & MSG_CTRUNC) != 0;
  return {.truncated = control_cut || (message.msg_flags & MSG_TRUNC) != 0, .segment = segment};
}

void write_control(msghdr& message, control_room& room, const endpoint& peer,
                   std::size_t segment) noexcept {
  message.msg_control = room.bytes;
  message.msg_controllen = 0;
  if (const auto source = peer.source()) {
    // Otherwise the kernel sees the address of another family.
    if (peer.family() == address_family::ipv4 && source->is_v4()) {
      in_pktinfo info{};
      std::memcpy(&info.ipi_spec_dst, source->bytes().data(), sizeof info.ipi_spec_dst);
      append(message, IPPROTO_IP, IP_PKTINFO, info);
    } else if (peer.family() == address_family::ipv6 && source->is_v6()) {
      in6_pktinfo info{};
      std::memcpy(&info.ipi6_addr, source->bytes().data(), sizeof info.ipi6_addr);
      info.ipi6_ifindex = source->scope();
      append(message, IPPROTO_IPV6, IPV6_PKTINFO, info);
    }
  }
  if (segment > 0) {
    append(message, IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(segment));
  }
  if (message.msg_controllen == 0) message.msg_control = nullptr;
}

void note_sources(const socket_ref& of, const endpoint& bound) {
  if (bound.is_ip() && bound.address().is_any()) of.set_packet_info(true);
}

io::result send_without_waiting(int fd, std::span<mmsghdr> messages) noexcept {
  return io::detail::retried([&] {
    return ::sendmmsg(fd, messages.data(), static_cast<unsigned>(messages.size()),
                      MSG_DONTWAIT | MSG_NOSIGNAL);
  });
}

std::optional<io::result> receive_from_operation::begin() noexcept {
  piece_ = {to_.data(), to_.size()};
  set_message(header_, piece_, peer_, endpoint::capacity(), &control_);
  return single_request::begin();
}

received_datagram receive_from_operation::value(io::result result) noexcept {
  peer_.resize(header_.msg_namelen);
  const message_properties properties = read_control(header_, peer_);
  return {result.count(), peer_, properties.truncated, properties.segment};
}

std::optional<io::result> send_to_operation::begin() noexcept {
  piece_ = {const_cast<std::byte*>(bytes_.data()), bytes_.size()};
  set_message(header_, piece_, peer_, peer_.size());
  write_control(header_, control_, peer_, segment_);
  return send();
}

std::optional<io::result> send_to_operation::send() noexcept {
  const std::optional<io::result> result = single_request::begin();
  if (result || !cannot_wait(header_)) return result;
  static_cast<void>(cancel());
  return io::detail::retried([&] { return ::sendmsg(descriptor()->fd(), &header_, MSG_NOSIGNAL); });
}

std::optional<io::result> send_batch_operation::send_rest() noexcept {
  for (;;) {
    messages = batch_->rest_to_send();
    if (messages.empty()) return io::result::of(batch_->size());
    const std::optional<io::result> result = send_some();
    if (!result) return std::nullopt;
    if (!*result) return result;
    batch_->sent_ += result->count();
  }
}

std::optional<io::result> send_batch_operation::send_some() noexcept {
  const std::optional<io::result> result = single_request::begin();
  if (result || !cannot_wait(messages.front().msg_hdr)) return result;
  static_cast<void>(cancel());
  return send_without_waiting(descriptor()->fd(), messages);
}

}  // namespace detail

namespace {

socket bound_to(const endpoint& local) {
  socket opened = socket::open(address_family::local, socket_type::datagram);
  if (!local.path().empty() || local.is_abstract()) opened.bind(local);
  return opened;
}

}  // namespace

datagram_socket::datagram_socket(event_loop& loop, socket served)
    : on_(std::make_unique<io::detail::open_descriptor>(loop, served.release(),
                                                        io::handle_kind::socket)) {}

socket_ref datagram_socket::options() const {
  return socket_ref(io::detail::opened(on_, "gyre::net::datagram_socket").fd());
}

event_loop& datagram_socket::loop() const {
  return io::detail::opened(on_, "gyre::net::datagram_socket").loop();
}

void datagram_socket::connect(const endpoint& peer) {
  const int served = options().fd();
  if (::connect(served, peer.data(), peer.size()) != 0) gyre::detail::throw_errno("connect");
}

void datagram_socket::disconnect() {
  const int served = options().fd();
  sockaddr none{};
  none.sa_family = AF_UNSPEC;
  if (::connect(served, &none, sizeof none) != 0) gyre::detail::throw_errno("connect");
}

unix_datagram::unix_datagram(event_loop& loop, const endpoint& local)
    : datagram_socket(loop, bound_to(local)) {}

std::pair<unix_datagram, unix_datagram> datagram_pair(event_loop& loop) {
  auto [one, other] = socket_pair(socket_type::datagram);
  return {unix_datagram(loop, std::move(one)), unix_datagram(loop, std::move(other))};
}

}  // namespace gyre::net
