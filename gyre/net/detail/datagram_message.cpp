// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/datagram_message.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/net/address.hpp>

#include <netinet/udp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace gyre::net::detail {
namespace {

// Closes descriptors that the peer of a Unix socket has sent, because datagram sockets accept none.
void close_descriptors(const cmsghdr& message) noexcept {
  const std::size_t count = (message.cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(&message) + i * sizeof fd, sizeof fd);
    unique_fd(fd).reset();
  }
}

bool is(const cmsghdr& control, int level, int type) noexcept {
  return control.cmsg_level == level && control.cmsg_type == type;
}

// Returns the value of a control message, completed by zeros if it was cut off.
template <class Data>
Data data_of(const cmsghdr& control) noexcept {
  Data data{};
  const std::size_t size = control.cmsg_len - std::min<std::size_t>(control.cmsg_len, CMSG_LEN(0));
  std::memcpy(&data, CMSG_DATA(&control), std::min(size, sizeof data));
  return data;
}

template <class Data>
void append(msghdr& message, int level, int type, const Data& data) noexcept {
  const std::size_t old_size = message.msg_controllen;
  message.msg_controllen = old_size + CMSG_SPACE(sizeof data);
  auto* const header_part =
      reinterpret_cast<cmsghdr*>(static_cast<char*>(message.msg_control) + old_size);
  header_part->cmsg_level = level;
  header_part->cmsg_type = type;
  header_part->cmsg_len = CMSG_LEN(sizeof data);
  std::memcpy(CMSG_DATA(header_part), &data, sizeof data);
}

// Returns the address to reply from: `ipi_spec_dst`, which is right even if the datagram was a
// broadcast or multicast.
std::optional<ip_address> source_of(const in_pktinfo& info, const endpoint& peer) noexcept {
  ip_address::v4_bytes bytes;
  std::memcpy(bytes.data(), &info.ipi_spec_dst, bytes.size());
  if (peer.family() == address_family::ipv4) return ip_address(bytes);
  ip_address::v6_bytes mapped_bytes{};
  mapped_bytes[10] = mapped_bytes[11] = 0xff;
  std::ranges::copy(bytes, mapped_bytes.begin() + 12);
  return ip_address(mapped_bytes);
}

std::optional<ip_address> source_of(const in6_pktinfo& info) noexcept {
  ip_address::v6_bytes bytes;
  std::memcpy(bytes.data(), &info.ipi6_addr, bytes.size());
  const ip_address local_address(bytes);
  if (local_address.is_multicast()) return std::nullopt;
  return local_address.is_link_local() && !local_address.is_v4_mapped()
             ? ip_address(bytes, info.ipi6_ifindex)
             : local_address;
}

}  // namespace

message_properties read_control(const msghdr& message, endpoint& peer) noexcept {
  auto& header = const_cast<msghdr&>(message);  // the macros only read the header
  std::size_t segment = 0;
  std::optional<ip_address> source;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS)
      close_descriptors(*control);
    if (is(*control, IPPROTO_UDP, UDP_GRO))
      segment = static_cast<std::size_t>(data_of<int>(*control));
    if (is(*control, IPPROTO_IP, IP_PKTINFO))
      source = source_of(data_of<in_pktinfo>(*control), peer);
    // An IPv6 socket reports both forms of the address for an IPv4 datagram; the one of IP_PKTINFO
    // has precedence.
    if (is(*control, IPPROTO_IPV6, IPV6_PKTINFO) && !source) {
      source = source_of(data_of<in6_pktinfo>(*control));
    }
  }
  peer.set_source(source);
  const bool is_control_truncated = peer.is_ip() && (message.msg_flags & MSG_CTRUNC) != 0;
  return {.truncated = is_control_truncated || (message.msg_flags & MSG_TRUNC) != 0,
          .segment = segment};
}

void write_control(msghdr& message, control_buffer& buffer, const endpoint& peer,
                   std::size_t segment) noexcept {
  message.msg_control = buffer.bytes;
  message.msg_controllen = 0;
  if (const auto source = peer.source()) {
    // A source of another family than the peer's is left out: it would be invalid for the socket.
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

void note_sources(const socket_ref& socket, const endpoint& local) {
  if (local.is_ip() && local.address().is_any()) socket.set_packet_info(true);
}

}  // namespace gyre::net::detail
