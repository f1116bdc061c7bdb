// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/udp_socket.hpp>

#include <gyre/base/error.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/system_sockets.hpp>
#include <gyre/task/as_expected.hpp>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace gyre::net {
namespace {

using sending = io::detail::request_awaiter<detail::send_to_operation>;
using batch_sending = io::detail::request_awaiter<detail::send_batch_operation>;

constexpr std::size_t max_segments = 64;   // Linux's limit
constexpr std::size_t max_bytes = 65'507;  // the largest payload of a datagram over IPv4

socket noting_sources(socket native_socket) {
  detail::note_sources(native_socket, native_socket.local_endpoint());
  return native_socket;
}

socket bound_to(const endpoint& local, const socket_options& options) {
  socket result = socket::open(local.family(), socket_type::datagram);
  result.apply(options);
  result.bind(local);
  return noting_sources(std::move(result));
}

// Whether the kernel supports UDP_SEGMENT; otherwise it would send all bytes as one datagram.
bool supports_segments(int udp_socket) {
  static const bool is_supported = [udp_socket] {
    int segment = 0;
    return detail::system::read_option(udp_socket, detail::system::udp_segment, &segment,
                                       sizeof segment)
        .ok();
  }();
  return is_supported;
}

// Whether the error means that the kernel cannot segment: for a segment longer than a packet, or a
// device without checksums.
bool cannot_segment(std::error_code error) {
  return error == std::errc::invalid_argument || error == std::errc::message_size ||
         error == std::errc::io_error;
}

task<std::size_t> send_cut(io::detail::open_descriptor* descriptor,
                           std::span<const std::byte> bytes, std::size_t segment, endpoint peer) {
  if (segment == 0) {
    gyre::detail::throw_system_error(EINVAL, "gyre::net::udp_socket::send_segments");
  }
  const std::size_t at_once =
      segment * std::clamp<std::size_t>(max_bytes / segment, 1, max_segments);
  std::size_t total = 0;
  bool kernel_does =
      descriptor != nullptr && descriptor->is_open() && supports_segments(descriptor->fd());
  while (kernel_does && total < bytes.size()) {
    const auto part = bytes.subspan(total, std::min(at_once, bytes.size() - total));
    const std::size_t segment_size = part.size() > segment ? segment : 0;
    auto result = as_expected(sending(std::in_place, descriptor, part, peer, segment_size));
    const auto outcome = co_await std::move(result);
    if (outcome) {
      total += part.size();
    } else if (segment_size > 0 && cannot_segment(outcome.error())) {
      kernel_does = false;
    } else {
      throw std::system_error(outcome.error(), "gyre::net::udp_socket::send_segments");
    }
  }
  datagram_batch batch(total < bytes.size() ? max_segments : 1, 0);
  while (total < bytes.size()) {
    batch.clear();
    while (total < bytes.size() && !batch.full()) {
      const auto part = bytes.subspan(total, std::min(segment, bytes.size() - total));
      static_cast<void>(batch.add_reference(part, peer));
      total += part.size();
    }
    batch_sending operation(std::in_place, descriptor, batch);
    co_await operation;
  }
  co_return total;
}

}  // namespace

udp_socket::udp_socket(event_loop& loop, const endpoint& local, const socket_options& options)
    : datagram_socket(loop, bound_to(local, options)) {}

udp_socket::udp_socket(event_loop& loop, address_family family)
    : datagram_socket(loop, noting_sources(socket::open(family, socket_type::datagram))) {}

udp_socket::udp_socket(event_loop& loop, socket native_socket)
    : datagram_socket(loop, noting_sources(std::move(native_socket))) {}

task<std::size_t> udp_socket::send_segments(std::span<const std::byte> bytes, std::size_t segment,
                                            endpoint peer) {
  return send_cut(descriptor().get(), bytes, segment, peer);
}

bool udp_socket::set_receive_offload(bool is_enabled) {
  const io::result set =
      detail::system::set_option(options().fd(), detail::system::udp_gro, is_enabled ? 1 : 0);
  if (!set && set.error_number() != ENOPROTOOPT) detail::fail(set.error(), "UDP_GRO");
  return set.ok();
}

}  // namespace gyre::net
