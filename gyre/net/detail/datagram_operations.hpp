// SPDX-License-Identifier: Apache-2.0
// Requests of datagram sockets as Operations of gyre/io/detail/awaiting.hpp.
#pragma once

#include <gyre/io/detail/awaiting.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/datagram_batch.hpp>
#include <gyre/net/endpoint.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

namespace gyre::net {

/// A datagram that receive_from() has put into the caller's memory.
struct received_datagram {
  std::size_t size;     ///< may be 0
  endpoint peer;        ///< who sent it
  bool truncated;       ///< it was longer than there was room
  std::size_t segment;  ///< as datagram::segment
};

namespace detail {

/// Room for what the kernel tells beside the bytes: the size of segments.
struct segment_control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int))];
};
/// The segment size in `message`; 0 for none.
std::size_t received_segment(const msghdr& message) noexcept;
/// Has the kernel cut what is sent with `message`.
void request_segment(msghdr& message, segment_control& room, std::size_t segment) noexcept;

struct receiving_one : io::detail::single_request<io::read_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::net::datagram_socket: receive";

  receiving_one(io::detail::open_descriptor* on, function report, std::span<std::byte> to) noexcept
      : single_request(on, to, report) {}
  receiving_one(const receiving_one& other, function report) noexcept
      : receiving_one(other.on(), report, other.rest) {}

  static std::size_t value(io::result result) noexcept { return result.count(); }
};

struct receiving_from : io::detail::single_request<io::receive_message_request> {
  using value_type = received_datagram;
  static constexpr const char* name = "gyre::net::datagram_socket: receive";

  receiving_from(io::detail::open_descriptor* on, function report, std::span<std::byte> to) noexcept
      : single_request(on, header_, report), to_(to) {}
  receiving_from(const receiving_from& other, function report) noexcept
      : receiving_from(other.on(), report, other.to_) {}

  std::optional<io::result> begin() noexcept;
  received_datagram value(io::result result) noexcept;

 private:
  std::span<std::byte> to_;
  msghdr header_;
  iovec piece_;
  endpoint peer_;
  segment_control control_;
};

struct sending_to : io::detail::single_request<io::send_message_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::net::datagram_socket: send";

  /// With a segment, the kernel cuts the bytes into datagrams of that size.
  sending_to(io::detail::open_descriptor* on, function report, std::span<const std::byte> bytes,
             const endpoint& to, std::size_t segment = 0) noexcept
      : single_request(on, header_, report), bytes_(bytes), peer_(to), segment_(segment) {}
  sending_to(const sending_to& other, function report) noexcept
      : sending_to(other.on(), report, other.bytes_, other.peer_, other.segment_) {}

  std::optional<io::result> begin() noexcept;
  static std::size_t value(io::result result) noexcept { return result.count(); }

 private:
  std::optional<io::result> send() noexcept;

  std::span<const std::byte> bytes_;
  endpoint peer_;
  std::size_t segment_;
  msghdr header_;
  iovec piece_;
  segment_control control_;
};

struct receiving_batch : io::detail::single_request<io::receive_messages_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::net::datagram_socket: receive_batch";

  receiving_batch(io::detail::open_descriptor* on, function report, datagram_batch& into) noexcept
      : single_request(on, std::span<mmsghdr>(), report), into_(&into) {}
  receiving_batch(const receiving_batch& other, function report) noexcept
      : receiving_batch(other.on(), report, *other.into_) {}

  std::optional<io::result> begin() noexcept {
    messages = into_->prepare_to_receive();
    return single_request::begin();
  }
  std::size_t value(io::result result) noexcept {
    into_->received(result.count());
    return result.count();
  }

 private:
  datagram_batch* into_;
};

struct sending_batch : io::detail::single_request<io::send_messages_request> {
  using value_type = std::size_t;
  static constexpr const char* name = "gyre::net::datagram_socket: send_batch";

  sending_batch(io::detail::open_descriptor* on, function report, datagram_batch& batch) noexcept
      : single_request(on, std::span<mmsghdr>(), report), batch_(&batch) {}
  sending_batch(const sending_batch& other, function report) noexcept
      : sending_batch(other.on(), report, *other.batch_) {}

  std::optional<io::result> begin() noexcept {
    batch_->sent_ = 0;
    return send_rest();
  }
  std::optional<io::result> go_on(io::result result) noexcept {
    if (!result) return result;
    batch_->sent_more(result.count());
    return send_rest();
  }
  static std::size_t value(io::result result) noexcept { return result.count(); }

 private:
  std::optional<io::result> send_rest() noexcept;
  std::optional<io::result> send_some() noexcept;

  datagram_batch* batch_;
};

}  // namespace detail
}  // namespace gyre::net
