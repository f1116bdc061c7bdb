// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/datagram_socket.hpp>

#include <gyre/base/error.hpp>
#include <gyre/base/unique_fd.hpp>

#include <netinet/in.h>
#include <netinet/udp.h>

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

// See send_without_waiting().
bool cannot_wait(const msghdr& message) noexcept {
  return message.msg_name != nullptr &&
         static_cast<const sockaddr*>(message.msg_name)->sa_family == AF_UNIX;
}

}  // namespace

std::size_t received_segment(const msghdr& message) noexcept {
  auto& header = const_cast<msghdr&>(message);  // the macros only read it
  std::size_t segment = 0;
  for (cmsghdr* each = CMSG_FIRSTHDR(&header); each != nullptr; each = CMSG_NXTHDR(&header, each)) {
    if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) close_descriptors(*each);
    if (each->cmsg_level != IPPROTO_UDP || each->cmsg_type != UDP_GRO) continue;
    int size = 0;
    std::memcpy(&size, CMSG_DATA(each), sizeof size);
    segment = static_cast<std::size_t>(size);
  }
  return segment;
}

void request_segment(msghdr& message, segment_control& room, std::size_t segment) noexcept {
  const auto size = static_cast<std::uint16_t>(segment);
  message.msg_control = room.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof size);
  cmsghdr& only = *CMSG_FIRSTHDR(&message);
  only.cmsg_level = IPPROTO_UDP;
  only.cmsg_type = UDP_SEGMENT;
  only.cmsg_len = CMSG_LEN(sizeof size);
  std::memcpy(CMSG_DATA(&only), &size, sizeof size);
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
  return {result.count(), peer_, (header_.msg_flags & MSG_TRUNC) != 0, received_segment(header_)};
}

std::optional<io::result> send_to_operation::begin() noexcept {
  piece_ = {const_cast<std::byte*>(bytes_.data()), bytes_.size()};
  set_message(header_, piece_, peer_, peer_.size());
  if (segment_ > 0) request_segment(header_, control_, segment_);
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
