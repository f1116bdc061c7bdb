// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/attached_output.hpp>

#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/message_with_fds.hpp>

#include <algorithm>
#include <array>

namespace gyre::net::detail {

void attached_output::add(output_attachment attachment, std::size_t queued_bytes) {
  attachment.bytes_before = queued_bytes - bytes_before_;
  items_.push_back(std::move(attachment));
  bytes_before_ = queued_bytes;
  descriptors_ += items_.back().descriptor_count();
}

attached_output::progress attached_output::send_first(io::handle& socket, io::backend& io,
                                                      std::span<iovec> pieces) noexcept {
  return first().file ? send_file_part(socket, io) : send_descriptors(socket, io, pieces);
}

attached_output::progress attached_output::send_file_part(io::handle& socket,
                                                          io::backend& io) noexcept {
  output_attachment& part = first();
  const std::size_t count = io::detail::bytes_of_file(io, part.unsent_bytes);
  const io::result outcome =
      io::detail::send_file_part(socket.fd(), part.file.get(), part.offset, count);
  if (outcome.would_block()) return {};
  if (!outcome) return {.error = outcome.error()};
  if (outcome.count() == 0) return {.error = io::errc::unexpected_end};  // the file has shrunk
  io.charge(outcome.count());
  part.unsent_bytes -= outcome.count();
  const bool is_sent = part.unsent_bytes == 0;
  if (is_sent) remove_first();
  return {.bytes_sent = outcome.count(), .is_sent = is_sent};
}

attached_output::progress attached_output::send_descriptors(io::handle& socket, io::backend& io,
                                                            std::span<iovec> pieces) noexcept {
  const std::vector<unique_fd>& fd_owners = first().fds;
  std::array<int, message_with_fds::max_fds> fds;
  std::ranges::transform(fd_owners, fds.begin(), &unique_fd::get);
  message_with_fds message(pieces);
  message.attach(std::span(fds).first(fd_owners.size()));
  io::send_message_request request(socket, message.header, nullptr);
  const io::result outcome = io.attempt(request);
  if (outcome.would_block()) return {};
  if (!outcome) return {.error = outcome.error()};
  remove_first();
  return {.bytes_sent = outcome.count(), .bytes_of_queue = outcome.count(), .is_sent = true};
}

}  // namespace gyre::net::detail
