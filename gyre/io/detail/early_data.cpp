// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/early_data.hpp>

#include <sys/socket.h>

#include <cstddef>
#include <span>
#include <utility>

namespace gyre::io::detail {
namespace {

std::size_t scatter(buffer_ring::queue& from, std::span<const iovec> pieces) noexcept {
  std::size_t count = 0;
  for (const iovec& piece : pieces) {
    count += from.read({static_cast<std::byte*>(piece.iov_base), piece.iov_len});
  }
  return count;
}

std::size_t read_message(buffer_ring::queue& from, msghdr& message) noexcept {
  message.msg_namelen = 0;
  message.msg_controllen = 0;
  message.msg_flags = 0;
  return scatter(from, {message.msg_iov, message.msg_iovlen});
}

}  // namespace

std::optional<result> early_data::read(request& reader) noexcept {
  if (bytes.empty()) return std::nullopt;
  switch (reader.kind()) {
    case request_kind::receive: {
      auto& receiving = static_cast<receive_request&>(reader);
      receiving.data = bytes.pop();
      return result::of(receiving.data.size());
    }
    case request_kind::read: {
      auto& reading = static_cast<read_request&>(reader);
      const std::size_t count = bytes.read(reading.rest);
      reading.rest = reading.rest.subspan(count);
      reading.done += count;
      if (reading.whole() && !reading.rest.empty()) return std::nullopt;
      return result::of(reading.done);
    }
    case request_kind::scatter:
      return result::of(scatter(bytes, static_cast<scatter_request&>(reader).pieces));
    case request_kind::receive_message:
      return result::of(
          read_message(bytes, *static_cast<receive_message_request&>(reader).message));
    case request_kind::receive_messages: {
      mmsghdr& first = static_cast<receive_messages_request&>(reader).messages.front();
      first.msg_len = static_cast<unsigned>(read_message(bytes, first.msg_hdr));
      return result::of(1);
    }
    default: return result::of(0);  // reads no bytes
  }
}

bool early_connections::push(std::uint32_t listener, unique_fd fd) noexcept {
  try {
    connections_.push_back({listener, std::move(fd)});
    return true;
  } catch (...) {
    return false;
  }
}

std::optional<result> early_connections::accept(accept_request& acceptor,
                                                early_data& counted) noexcept {
  for (auto each = connections_.begin(); each != connections_.end();) {
    if (each->listener != acceptor.target().index) {
      ++each;
      continue;
    }
    unique_fd fd = std::move(each->fd);
    each = connections_.erase(each);
    --counted.connections;
    if (fill_peer(acceptor, fd.get())) return result::of(static_cast<std::size_t>(fd.release()));
  }
  return std::nullopt;
}

void early_connections::close_those_of(std::uint32_t listener) noexcept {
  std::erase_if(connections_, [&](const connection& each) { return each.listener == listener; });
}

bool fill_peer(accept_request& acceptor, int connection) noexcept {
  acceptor.peer_size = sizeof acceptor.peer;
  return ::getpeername(connection, reinterpret_cast<sockaddr*>(&acceptor.peer),
                       &acceptor.peer_size) == 0;
}

}  // namespace gyre::io::detail
