// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/datagram_operations.hpp>

#include <gyre/net/detail/system_sockets.hpp>

namespace gyre::net::detail {
namespace {

// Whether sending must not wait, because the sender is a Unix socket that is not connected. It
// would not be notified when the receiver's queue has space, as epoll reports the space in the
// sender's own buffer.
bool cannot_wait(const msghdr& message) noexcept {
  return message.msg_name != nullptr &&
         static_cast<const sockaddr*>(message.msg_name)->sa_family == AF_UNIX;
}

}  // namespace

std::optional<io::result> receive_from_operation::begin() noexcept {
  piece_ = {buffer_.data(), buffer_.size()};
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
  return system::send_without_waiting(descriptor()->handle().fd(), header_);
}

std::optional<io::result> send_batch_operation::send_rest() noexcept {
  for (;;) {
    messages = batch_->rest_to_send();
    if (messages.empty()) return io::result::of(batch_->size());
    const std::optional<io::result> result = send_some();
    if (!result) return std::nullopt;
    if (!*result) return result;
    batch_->sent_count_ += result->count();
  }
}

std::optional<io::result> send_batch_operation::send_some() noexcept {
  const std::optional<io::result> result = single_request::begin();
  if (result || !cannot_wait(messages.front().msg_hdr)) return result;
  static_cast<void>(cancel());
  return system::send_without_waiting(descriptor()->fd(), messages);
}

}  // namespace gyre::net::detail
