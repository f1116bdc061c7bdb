// SPDX-License-Identifier: Apache-2.0
// Parts of files, and descriptors, in the streams of connections.
#include <gyre/io/backend.hpp>
#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/message_with_fds.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <iterator>

namespace gyre::net {

namespace detail {

std::span<iovec> first_bytes(std::span<iovec> pieces, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    iovec& piece = pieces[i];
    if (piece.iov_len >= bytes) {
      piece.iov_len = bytes;
      return pieces.first(i + 1);
    }
    bytes -= piece.iov_len;
  }
  return pieces;
}

}  // namespace detail

namespace {

constexpr std::size_t received_at_once = std::size_t{16} << 10;

}  // namespace

// --- Sending ---

// The first attachment, as far as the kernel takes it at once; whether that was all of it.
bool tcp_connection::send_attachment() noexcept {
  detail::attached_output& attached = *backlog()->attached;
  for (;;) {
    bool done = false;
    const std::error_code failed =
        attached.first().file ? send_file_part(done) : send_descriptors(done);
    if (failed == std::errc::broken_pipe || failed == std::errc::connection_reset) {
      sending_failed(failed);  // the peer has gone, and may have sent something before
      return false;
    }
    if (failed) return refuse(failed);  // only a reset tells the peer that it waits in vain
    if (done) return true;
    const std::optional<io::result> result = io().start(attached.room);
    if (!result) return false;
    if (!*result) {
      sending_failed(result->error());
      return false;
    }
  }
}

std::error_code tcp_connection::send_file_part(bool& done) noexcept {
  detail::output_attachment& part = backlog()->attached->first();
  const std::size_t count = std::min(part.left, io::detail::bytes_of_file(io()));
  const io::result sent =
      io::detail::send_file_part(handle::fd(), part.file.get(), part.offset, count);
  if (sent.would_block()) return {};
  if (!sent) return sent.error();
  if (sent.count() == 0) return io::errc::unexpected_end;  // it has become shorter
  count_sent(sent.count());
  io().charge(sent.count());
  part.left -= sent.count();
  done = part.left == 0;
  if (!done) return {};
  backlog()->attached->remove_first();
  on_output_shrunk();
  return {};
}

std::error_code tcp_connection::send_descriptors(bool& done) noexcept {
  const std::vector<unique_fd>& owned = backlog()->attached->first().fds;
  std::array<int, detail::message_with_fds::most_fds> fds;
  std::ranges::transform(owned, fds.begin(), &unique_fd::get);
  detail::message_with_fds message(next_output());
  message.attach(std::span(fds).first(owned.size()));
  io::send_message_request sending(*this, message.header, nullptr);
  const io::result sent = io().attempt(sending);
  if (sent.would_block()) return {};
  if (!sent) return sent.error();
  done = true;
  backlog()->attached->remove_first();
  consume_output(sent.count());
  return {};
}

// --- Receiving ---

void tcp_connection::prepare_for_descriptors() {
  if (peer_is_ip() || layered_ || group_->options().fd_limit == 0) return;
  io::handle& self = *this;  // make_unique() may not see the base
  make_backlog().descriptors =
      std::make_unique<detail::descriptor_input>(self, &on_done<&tcp_connection::readable>);
}

std::vector<unique_fd> tcp_connection::take_fds() noexcept {
  if (backlog() == nullptr || backlog()->descriptors == nullptr) return {};
  return std::exchange(backlog()->descriptors->fds, {});
}

void tcp_connection::readable(io::result result) {
  if (!result) return receiving_failed(result.error());
  receive_with_descriptors();
}

void tcp_connection::receive_with_descriptors() {
  std::array<std::byte, received_at_once> room;
  const iovec piece{room.data(), room.size()};
  detail::message_with_fds message({&piece, 1});
  message.make_room();
  io::receive_message_request receiving(*this, message.header, nullptr);
  const io::result came = io().attempt(receiving);
  if (!came && !came.would_block()) return receiving_failed(came.error());
  if (came) {
    std::vector<unique_fd> fds = message.take();
    if (came.count() == 0) return on_peer_end();
    if (message.is_truncated() || !keep_descriptors(std::move(fds))) {
      return abort(io::errc::fd_limit);
    }
    receive(std::span(room).first(came.count()));
  }
  start_receiving();
}

// False if too many descriptors would wait for the program. A closed connection drops them.
bool tcp_connection::keep_descriptors(std::vector<unique_fd> came) {
  std::vector<unique_fd>& held = backlog()->descriptors->fds;
  if (phase_ != phase::open || !group_->handlers().message) return true;
  if (came.size() > group_->options().fd_limit - held.size()) return false;
  held.insert(held.end(), std::move_iterator(came.begin()), std::move_iterator(came.end()));
  return true;
}

}  // namespace gyre::net
