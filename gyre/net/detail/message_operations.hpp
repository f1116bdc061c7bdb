// SPDX-License-Identifier: Apache-2.0
// Sending and receiving messages that the caller has laid out, as Operations of
// gyre/io/detail/request_awaiter.hpp.
#pragma once

#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/io/request.hpp>

#include <sys/socket.h>

#include <cstddef>

namespace gyre::net::detail {

/// sendmsg(2) or recvmsg(2); the message must stay in place.
template <class Request, class Message>
struct message_operation : io::detail::single_request<Request> {
  using value_type = std::size_t;
  using base = io::detail::single_request<Request>;
  using function = io::request::function;
  static constexpr const char* name = "gyre::net: message";

  message_operation(io::detail::open_descriptor* on, function callback, Message& of) noexcept
      : base(on, of, callback) {}
  message_operation(const message_operation& other, function callback) noexcept
      : base(other.descriptor(), *other.message, callback) {}

  static std::size_t value(io::result result) noexcept { return result.count(); }
};

using send_message_operation = message_operation<io::send_message_request, const msghdr>;
using receive_message_operation = message_operation<io::receive_message_request, msghdr>;

}  // namespace gyre::net::detail
